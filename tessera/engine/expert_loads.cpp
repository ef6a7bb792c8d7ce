#include "tessera/engine/expert_loads.h"

#include <algorithm>

#include "tessera/base/check.h"

namespace tessera {

std::int64_t ExpertLoads::bytes_for(const ExpertLoadList& own) {
  std::int64_t counts = 0;
  for (const ExpertLoad* load : own) counts += load->experts() * (load->limited() ? 2 : 1);
  return counts * static_cast<std::int64_t>(sizeof(double));
}

ExpertLoads::ExpertLoads(const ExpertLoadList& own, std::int64_t layers, bool sequence_parallel,
                         Context& context, Memory& memory)
    : own_(own),
      per_layer_(1.0 / static_cast<double>(std::max<std::int64_t>(1, layers))),
      sequence_parallel_(sequence_parallel) {
  if (own.empty()) return;
  const std::int64_t experts = own.front()->experts();
  const bool limited = own.front()->limited();
  counts_ =
      memory.allocate(MemoryUse::data, DType::f64, {limited ? 2 : 1, std::ssize(own), experts});
  context.kernels.fill(context.stream, counts_, 0);
  for (std::int64_t i = 0; i < std::ssize(own); ++i) {
    ExpertLoad& load = *own[static_cast<std::size_t>(i)];
    check(load.experts() == experts && load.limited() == limited,
          "layers with different mixtures of experts in one model");
    const auto of = [&](const View& layers_of) {
      return layers_of.slice(0, i, 1).reshape({experts});
    };
    load.bind(of(chosen()), limited ? of(kept()) : View());
  }
}

View ExpertLoads::chosen() const {
  return counts_.view().slice(0, 0, 1).reshape({counts_.view().dim(1), counts_.view().dim(2)});
}

View ExpertLoads::kept() const {
  if (counts_.view().dim(0) == 1) return {};
  return counts_.view().slice(0, 1, 1).reshape({counts_.view().dim(1), counts_.view().dim(2)});
}

void ExpertLoads::begin_step(Context& context) {
  if (!own_.empty()) context.kernels.fill(context.stream, counts_, 0);
}

// The counts are whole numbers, so the sums are exact in any order.
void ExpertLoads::finish_step(Context& context, const View& statistics) {
  if (!statistics) return;
  const Mesh& mesh = context.mesh;
  Stream& stream = context.stream;
  if (own_.empty()) {
    context.kernels.fill(stream, statistics, 0);
  } else {
    if (sequence_parallel_) mesh.tensor().all_reduce(counts_, ReduceOp::sum, stream)->wait(stream);
    mesh.groups(PlacementClass::buffer)
        .data_parallel->all_reduce(counts_, ReduceOp::sum, stream)
        ->wait(stream);
    context.kernels.expert_statistics(stream, statistics, chosen(), kept(), per_layer_);
  }
  mesh.pipeline().all_reduce(statistics, ReduceOp::sum, stream)->wait(stream);
}

void ExpertLoads::write_by_layer(Context& context, const View& by_layer) {
  Stream& stream = context.stream;
  context.kernels.fill(stream, by_layer, 0);
  for (std::int64_t i = 0; i < std::ssize(own_); ++i) {
    const std::int64_t layer = own_[static_cast<std::size_t>(i)]->layer();
    context.kernels.expert_statistics(
        stream, by_layer.slice(0, layer, 1).reshape({by_layer.dim(1)}), chosen().slice(0, i, 1),
        kept() ? kept().slice(0, i, 1) : View(), 1.0);
  }
  context.mesh.pipeline().all_reduce(by_layer, ReduceOp::sum, stream)->wait(stream);
}

void ExpertLoads::update(Context& context, const ConstView& state) {
  const auto is_updated = [](const Parameter* p) { return p != nullptr && !p->frozen(); };
  for (const ExpertLoad* load : own_) {
    const ExpertLoad::Updated& updated = load->updated();
    if (is_updated(updated.bias))
      context.kernels.update_expert_bias(context.stream, updated.bias->value(), load->counts(),
                                         state, updated.bias_rate);
    if (is_updated(updated.shares))
      context.kernels.set_expert_shares(context.stream, updated.shares->value(), load->counts(),
                                        state);
  }
}

}  // namespace tessera
