#include "tessera/train/layer_report.h"

#include "tessera/engine/host_block.h"
#include "tessera/spec/model_spec.h"

namespace tessera {

LayerReport::LayerReport(Session& session)
    : session_(session), losses_(session.extra_losses().names_by_layer()) {
  const ModelSpec spec = model_spec(session.options().model);
  const std::int64_t layers = std::ssize(all_layers(spec));
  const auto table = [&](std::int64_t columns) {
    return session.memory().allocate(MemoryUse::data, DType::f64, {layers, columns});
  };
  if (!losses_.empty()) loss_values_ = table(std::ssize(losses_));
  statistics_ = table(std::ssize(ExpertLoads::statistics()));
}

std::vector<LayerMetrics> LayerReport::read() {
  Context& context = session_.context();
  const ModelSpec spec = model_spec(session_.options().model);
  std::vector<LayerMetrics> layers;
  for (const LayerSpec* layer : all_layers(spec))
    if (const auto* moe = std::get_if<MoeSpec>(&layer->feed_forward))
      layers.push_back({moe->layer, {}});
  const auto add = [&](const std::vector<std::string>& names, std::string_view unit,
                       const View& table) {
    const HostBlock host = downloaded(context, table);
    for (LayerMetrics& each : layers)
      for (std::int64_t i = 0; i < std::ssize(names); ++i)
        each.metrics.add(names[static_cast<std::size_t>(i)], unit,
                         host.view().data<double>()[each.layer * std::ssize(names) + i]);
  };
  if (loss_values_) {
    session_.extra_losses().write_by_layer(context, loss_values_);
    add(losses_, kLossUnit, loss_values_);
  }
  session_.expert_loads().write_by_layer(context, statistics_);
  add(ExpertLoads::statistics(), "", statistics_);
  return layers;
}

}  // namespace tessera
