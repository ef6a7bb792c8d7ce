#include "tessera/nn/moe/router.h"

namespace tessera {
namespace {

// With sequence parallelism each tensor-parallel rank routes other rows, so its gradient is
// partial.
Parameter router_weight(const MoeSpec& spec, const LayerContext& layer) {
  const GradientGroup group = layer.sequence_parallel ? GradientGroup::tensor : GradientGroup::none;
  return replicated_parameter(
      layer.dtype, router_weight_name(spec), {spec.experts, spec.expert.hidden},
      {InitKind::normal, spec.expert.init_std}, layer.tensor_rank, {.gradient_group = group});
}

}  // namespace

Router::Router(const MoeSpec& spec, const LayerContext& layer)
    : experts_(spec.experts), weight_(router_weight(spec, layer)) {}

Router::Saved Router::plan_buffers(ActivationLayout& activations, ArenaLayout& scratch,
                                   std::int64_t rows) const {
  const DType acc = accumulator_type(weight_.dtype());
  Saved saved;
  saved.logits = activations.until_input.take(acc, {rows, experts_});
  saved.expert = activations.until_input.take(DType::i32, {rows});
  saved.probability = activations.until_input.take(acc, {rows});
  if (activations.gradients) saved.dprobability = scratch.take(acc, {rows});
  saved.dlogits = activations.gradient(scratch, weight_.dtype(), {rows, experts_});
  return saved;
}

void Router::forward(Context& context, ConstView x, const Saved& saved) const {
  GemmSpec spec;
  spec.transpose_b = true;
  context.kernels.gemm(context.stream, saved.logits, x, ConstView(weight_.value()), spec,
                       context.workspace);
  context.kernels.route_top1(context.stream, saved.expert, saved.probability, saved.logits);
}

void Router::backward_input(Context& context, View dx, ConstView dy, ConstView output,
                            const Saved& saved) const {
  context.kernels.row_dot(context.stream, saved.dprobability, dy, output);
  context.kernels.route_top1_backward(context.stream, saved.dlogits, saved.dprobability,
                                      saved.expert, saved.logits);
  GemmSpec spec;
  spec.accumulate = true;
  context.kernels.gemm(context.stream, dx, ConstView(saved.dlogits), ConstView(weight_.value()),
                       spec, context.workspace);
}

void Router::backward_weight(Context& context, ConstView x, const Saved& saved) {
  if (!weight_.trained()) return;
  const Gradient weight = weight_.grad();
  GemmSpec spec;
  spec.transpose_a = true;
  spec.accumulate = weight.accumulate;
  context.kernels.gemm(context.stream, weight.view, ConstView(saved.dlogits), x, spec,
                       context.workspace);
}

}  // namespace tessera
