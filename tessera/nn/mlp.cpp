#include "tessera/nn/mlp.h"

namespace tessera {
Mlp::Mlp(const MlpSpec& spec, const LayerContext& layer)
    : spec_(spec),
      dtype_(layer.dtype),
      rows_(layer),
      ffn_(spec.ffn / layer.shards()),
      up_(make_first_linear(up_linear(spec), layer)),
      down_(make_last_linear(down_linear(spec), layer)) {}

void Mlp::collect(ParameterList& parameters) {
  up_->collect(parameters);
  down_->collect(parameters);
}

std::unique_ptr<Sublayer::Saved> Mlp::plan_buffers(ActivationLayout& activations,
                                                   ArenaLayout& scratch,
                                                   const BatchShape& shape) const {
  const std::int64_t n = shape.rows();
  auto planned = std::make_unique<Saved>();
  Saved& saved = *planned;
  saved.pre = activations.until_input.take(dtype_, {n, pre_width()});
  if (!spec_.gated || activations.split_backward)
    saved.act = activations.until_weight.take(dtype_, {n, ffn_});
  // The gradient of a gated activation overwrites its input, unless the backward is split.
  const bool in_place = spec_.gated && !activations.split_backward && activations.gradients;
  saved.d_pre = in_place ? saved.pre : activations.gradient(scratch, dtype_, {n, pre_width()});
  saved.rows = SublayerRows(activations, rows_, dtype_, shape, spec_.hidden);
  if (spec_.gated) saved.work = scratch.take(dtype_, {n, ffn_});
  return planned;
}

SummaSizes Mlp::summa_sizes(const BatchShape& shape) const {
  return up_->summa_sizes(shape.rows()).or_else(down_->summa_sizes(shape.rows()));
}

void Mlp::forward(Context& context, const Microbatch&, View y, ConstView x, Sublayer::Saved& state,
                  const LinearScratch& linear) const {
  auto& saved = static_cast<Saved&>(state);
  const View act = saved.act ? saved.act : saved.work;
  saved.rows.set_input(x);
  if (fused()) {
    up_->forward_gelu(context, act, saved.pre, x, linear);
  } else {
    up_->forward(context, saved.pre, x, linear);
    if (spec_.gated)
      context.kernels.gated_activation_forward(context.stream, act, saved.pre, spec_.activation);
    else
      context.kernels.activation_forward(context.stream, act, saved.pre, spec_.activation.kind);
  }
  down_->forward(context, y, act, linear);
}

WorkHandle Mlp::backward_input(Context& context, const Microbatch&, View dx, ConstView dy,
                               Sublayer::Saved& state, const LinearScratch& linear) {
  auto& saved = static_cast<Saved&>(state);
  const ConstView dy_seen = saved.rows.begin_backward(context, rows_, linear.all, dy);
  if (fused()) {
    down_->backward_input_gelu(context, saved.d_pre, dy_seen, saved.pre, linear);
  } else if (!spec_.gated) {
    down_->backward_input(context, saved.d_pre, dy_seen, linear)->wait(context.stream);
    context.kernels.activation_backward(context.stream, saved.d_pre, saved.d_pre, saved.pre,
                                        spec_.activation.kind);
  } else {
    down_->backward_input(context, saved.work, dy_seen, linear)->wait(context.stream);
    context.kernels.gated_activation_backward(context.stream, saved.d_pre,
                                              saved.act ? View() : saved.work, saved.work,
                                              saved.pre, spec_.activation);
  }
  saved.act_seen = saved.act ? saved.act : saved.work;
  saved.rows.fetch_input(context, rows_, linear.all);
  return up_->backward_input(context, dx, saved.d_pre, linear);
}

void Mlp::backward_weight(Context& context, Sublayer::Saved& state, const LinearScratch& linear) {
  auto& saved = static_cast<Saved&>(state);
  const ConstView dy = saved.rows.begin_weight(context, rows_, linear.all);
  down_->backward_weight(context, dy, saved.act_seen, linear);
  const ConstView x = saved.rows.input(context, rows_, linear.all);
  up_->backward_weight(context, saved.d_pre, x, linear);
}

}  // namespace tessera
