#include "tessera/spec/parameter_table.h"

#include <functional>

#include "tessera/base/check.h"

namespace tessera {
namespace {

// Calls a function with each parameter in turn.
class Walk {
 public:
  explicit Walk(std::function<void(ParameterInfo)> add) : add_(std::move(add)) {}

  void model(const ModelSpec& spec) {
    const EmbeddingSpec& embedding = spec.embedding;
    const InitSpec init{InitKind::normal, embedding.init_std};
    tensor("embedding.word.weight", {embedding.vocab, embedding.hidden}, init);
    if (embedding.positions > 0)
      tensor("embedding.position.weight", {embedding.positions, embedding.hidden}, init);
    for (const LayerSpec& each : spec.layers) layer(each);
    norm("final_norm", spec.hidden, spec.final_norm);
    if (!spec.head.tied)
      tensor("output.weight", {spec.head.vocab, spec.head.hidden},
             {InitKind::normal, spec.head.init_std});
    for (const MtpSpec& each : spec.mtp) mtp(each);
  }

 private:
  void tensor(const std::string& name, const Shape& shape, const InitSpec& init) {
    add_({name, shape, init, PlacementClass::dense});
  }
  void linear(const LinearSpec& spec) {
    for (const LinearPart& part : spec.parts)
      tensor(part.name + ".weight", {part.out, spec.in}, {InitKind::normal, spec.init_std});
    if (!spec.bias) return;
    for (const LinearPart& part : spec.parts) tensor(part.name + ".bias", {part.out}, {});
  }
  void norm(const std::string& name, std::int64_t channels, const NormSpec& spec) {
    tensor(name + ".weight", {channels}, {norm_weight_init(spec)});
    if (has_bias(spec)) tensor(name + ".bias", {channels}, {});
  }
  void sublayer(const AttentionLayerSpec& spec) {
    linear(qkv_linear(spec));
    linear(output_linear(spec));
    if (spec.softmax == SoftmaxType::learnable)
      tensor(sinks_name(spec), {spec.heads}, {InitKind::normal, spec.init_std});
    switch (spec.qk_norm) {
      case QkNorm::none:
      case QkNorm::l2: break;
      case QkNorm::per_head: qk_norms(spec, 1, 1); break;
      case QkNorm::whole_width: qk_norms(spec, spec.heads, spec.groups); break;
    }
  }
  void qk_norms(const AttentionLayerSpec& spec, std::int64_t q_heads, std::int64_t k_heads) {
    norm(spec.name + ".q_norm", q_heads * spec.head_size, spec.norm);
    norm(spec.name + ".k_norm", k_heads * spec.head_size, spec.norm);
  }
  void sublayer(const LatentAttentionSpec& spec) {
    linear(latent_linear(spec));
    if (spec.q_rank > 0) norm(spec.name + ".q_norm", spec.q_rank, spec.norm);
    linear(query_linear(spec));
    norm(spec.name + ".kv_norm", spec.kv_rank, spec.norm);
    linear(key_value_linear(spec));
    linear(output_linear(spec));
  }
  void sublayer(const MlpSpec& spec) {
    linear(up_linear(spec));
    linear(down_linear(spec));
  }
  void sublayer(const MoeSpec& spec) {
    router(spec.router);
    if (balances_globally(spec))
      add_({shares_name(spec.router),
            {spec.router.experts},
            {InitKind::ones},
            PlacementClass::buffer});
    experts(spec, up_linear(spec.expert));
    experts(spec, down_linear(spec.expert));
    if (spec.shared) sublayer(*spec.shared);
    if (spec.shared_gate) router(*spec.shared_gate);
  }
  void router(const RouterLayerSpec& spec) {
    tensor(weight_name(spec), {spec.experts, spec.hidden}, {InitKind::normal, spec.init_std});
    if (spec.bias) tensor(linear_bias_name(spec), {spec.experts}, {});
    if (spec.bias_rate) add_({bias_name(spec), {spec.experts}, {}, PlacementClass::buffer});
  }
  void experts(const MoeSpec& spec, const LinearSpec& linear) {
    for (const LinearPart& part : linear.parts)
      add_({part.name + ".weight",
            {spec.router.experts, part.out, linear.in},
            {InitKind::normal, linear.init_std},
            PlacementClass::expert});
    if (!linear.bias) return;
    for (const LinearPart& part : linear.parts)
      add_({part.name + ".bias", {spec.router.experts, part.out}, {}, PlacementClass::expert});
  }
  void layer(const LayerSpec& spec) {
    const auto visit = [this](const auto& each) { sublayer(each); };
    const auto add_norm = [&](const std::optional<std::string>& name) {
      if (name) norm(*name, spec.hidden, spec.norm);
    };
    const LayerNorms norms = layer_norms(spec);
    add_norm(norms.mixer);
    std::visit(visit, spec.mixer);
    add_norm(norms.mixer_output);
    add_norm(norms.feed_forward);
    std::visit(visit, spec.feed_forward);
    add_norm(norms.feed_forward_output);
  }

  void mtp(const MtpSpec& spec) {
    norm(spec.name + ".enorm", spec.hidden, spec.norm);
    norm(spec.name + ".hnorm", spec.hidden, spec.norm);
    linear(projection_linear(spec));
    layer(spec.layer);
    norm(spec.name + ".final_norm", spec.hidden, spec.norm);
  }

  std::function<void(ParameterInfo)> add_;
};

}  // namespace

ParameterTable::ParameterTable(const ModelSpec& spec) {
  Walk([this](ParameterInfo info) {
    numbers_[info.name] = all_.size();
    all_.push_back(std::move(info));
  }).model(spec);
}

const ParameterInfo* ParameterTable::find(const std::string& name) const {
  const auto at = numbers_.find(name);
  return at == numbers_.end() ? nullptr : &all_[at->second];
}

const Shape& ParameterTable::shape(const std::string& name) const {
  const ParameterInfo* info = find(name);
  check(info != nullptr, "the model has no parameter '{}'", name);
  return info->shape;
}

double parameter_count(const ModelSpec& spec) {
  double count = 0;
  Walk([&](const ParameterInfo& info) {
    if (info.placement_class == PlacementClass::buffer) return;
    double elements = 1;
    for (int i = 0; i < info.shape.rank(); ++i) elements *= static_cast<double>(info.shape[i]);
    count += elements;
  }).model(spec);
  return count;
}

}  // namespace tessera
