#include "tessera/nn/moe/router.h"

namespace tessera {
namespace {

// With sequence parallelism each tensor-parallel rank routes other rows, so its gradient is
// partial.
Parameter router_parameter(const std::string& name, const Shape& shape, InitSpec init,
                           const LayerContext& layer) {
  const GradientGroup group = layer.sequence_parallel ? GradientGroup::tensor : GradientGroup::none;
  return replicated_parameter(layer.dtype, name, shape, init, layer.tensor_rank,
                              {.gradient_group = group});
}

Parameter router_weight(const RouterLayerSpec& spec, const LayerContext& layer) {
  return router_parameter(weight_name(spec), {spec.experts, spec.hidden},
                          {InitKind::normal, spec.init_std}, layer);
}

std::optional<Parameter> router_bias(const RouterLayerSpec& spec, const LayerContext& layer) {
  if (!spec.bias) return std::nullopt;
  return router_parameter(linear_bias_name(spec), {spec.experts}, {}, layer);
}

std::optional<Parameter> expert_bias(const RouterLayerSpec& spec, const LayerContext& layer) {
  if (!spec.bias_rate) return std::nullopt;
  return replicated_parameter(accumulator_type(layer.dtype), bias_name(spec), {spec.experts}, {},
                              layer.tensor_rank, {.placement_class = PlacementClass::buffer});
}

}  // namespace

Router::Router(const RouterLayerSpec& spec, bool keep_logits, const LayerContext& layer)
    : spec_(spec),
      rows_(layer),
      jitter_key_(rng_key(layer.seed, RngPurpose::router_jitter, spec.name)),
      keep_logits_(keep_logits),
      weight_(router_weight(spec, layer)),
      linear_bias_(router_bias(spec, layer)),
      bias_(expert_bias(spec, layer)) {}

void Router::collect(ParameterList& parameters) {
  parameters.push_back(&weight_);
  if (linear_bias_) parameters.push_back(&*linear_bias_);
  if (bias_) parameters.push_back(&*bias_);
}

Router::Saved Router::plan_buffers(ActivationLayout& activations, ArenaLayout& scratch,
                                   std::int64_t rows) const {
  const DType acc = accumulator_type(weight_.dtype());
  const Shape all{rows, spec_.experts}, chosen{rows, spec_.choice.topk};
  Saved saved;
  saved.scores = activations.until_input.take(acc, all);
  saved.logits = keep_logits_ ? activations.until_input.take(acc, all) : saved.scores;
  saved.expert = activations.until_input.take(DType::i32, chosen);
  saved.weight = activations.until_input.take(acc, chosen);
  if (activations.gradients) saved.dweight = scratch.take(acc, chosen);
  if (linear_bias_) saved.linear_bias = scratch.take(acc, {spec_.experts});
  saved.dlogits = activations.gradient(scratch, weight_.dtype(), all);
  if (spec_.jitter == 0 || !activations.gradients) return saved;
  saved.noisy = activations.until_weight.take(weight_.dtype(), {rows, spec_.hidden});
  saved.dnoisy = scratch.take(weight_.dtype(), {rows, spec_.hidden});
  return saved;
}

void Router::multiply_noise(Context& context, const Microbatch& batch, View y, ConstView x) const {
  context.kernels.multiply_noise(context.stream, y, x,
                                 {spec_.jitter, jitter_key_, batch.samples,
                                  batch.ranges.from(rows_.first_position(batch.shape))});
}

void Router::forward(Context& context, const Microbatch& batch, ConstView x, Saved& saved) const {
  saved.x = x;
  if (saved.noisy && batch.training) {
    multiply_noise(context, batch, saved.noisy, x);
    saved.x = saved.noisy;
  }
  GemmSpec spec;
  spec.transpose_b = true;
  if (linear_bias_) {
    context.kernels.copy(context.stream, saved.linear_bias, ConstView(linear_bias_->value()));
    spec.epilogue = Epilogue::bias;
    spec.bias = saved.linear_bias;
  }
  context.kernels.gemm(context.stream, saved.logits, saved.x, ConstView(weight_.value()), spec,
                       context.workspace);
  const ConstView bias = bias_ ? bias_->value() : View();
  context.kernels.route(context.stream, saved.expert, saved.weight, saved.scores, saved.logits,
                        bias, spec_.choice);
}

void Router::backward_input(Context& context, const Microbatch& batch, View dx, const Saved& saved,
                            RouterGradients losses) const {
  losses.weight = saved.dweight;
  context.kernels.route_backward(context.stream, saved.dlogits, saved.expert, saved.scores, losses,
                                 spec_.choice);
  const View& sum = saved.noisy ? saved.dnoisy : dx;
  GemmSpec spec;
  spec.accumulate = !saved.noisy;
  context.kernels.gemm(context.stream, sum, ConstView(saved.dlogits), ConstView(weight_.value()),
                       spec, context.workspace);
  if (!saved.noisy) return;
  multiply_noise(context, batch, sum, sum);
  context.kernels.add_dropout(context.stream, dx, dx, sum, {});
}

void Router::backward_weight(Context& context, const Saved& saved) {
  if (linear_bias_ && linear_bias_->trained()) {
    const Gradient bias = linear_bias_->grad();
    context.kernels.column_sum(context.stream, bias.view, saved.dlogits, bias.accumulate);
  }
  if (!weight_.trained()) return;
  const Gradient weight = weight_.grad();
  GemmSpec spec;
  spec.transpose_a = true;
  spec.accumulate = weight.accumulate;
  context.kernels.gemm(context.stream, weight.view, ConstView(saved.dlogits), saved.x, spec,
                       context.workspace);
}

}  // namespace tessera
