#include "tessera/nn/moe/moe.h"

namespace tessera {
namespace {

View first_rows(const View& planned, const TokenDispatch::Saved& tokens) {
  return planned.slice(0, 0, tokens.rows);
}

Experts::Rows sorted_rows(const TokenDispatch::Saved& tokens) {
  return {tokens.offsets, first_rows(tokens.weight, tokens)};
}

}  // namespace

Moe::Moe(const MoeSpec& spec, const LayerContext& layer)
    : spec_(spec),
      dtype_(layer.dtype),
      hidden_(spec.expert.hidden),
      context_size_(layer.context_size),
      rows_(layer),
      losses_(spec, layer),
      router_(spec.router, needs_logits(spec), layer),
      capacity_(spec, layer),
      load_(spec.layer, spec.router.experts, capacity_.limited(),
            {router_.bias(), spec.router.bias_rate.value_or(0), losses_.shares()}),
      dispatch_(make_token_dispatch(spec.router.experts, spec.router.choice.topk,
                                    spec.expert.hidden, layer)),
      experts_(spec, layer) {
  if (spec.shared) shared_ = std::make_unique<Mlp>(*spec.shared, layer);
  if (spec.shared_gate) gate_ = std::make_unique<Router>(*spec.shared_gate, false, layer);
}

void Moe::collect(ParameterList& parameters) {
  router_.collect(parameters);
  losses_.collect(parameters);
  experts_.collect(parameters);
  if (shared_) shared_->collect(parameters);
  if (gate_) gate_->collect(parameters);
}

std::unique_ptr<Sublayer::Saved> Moe::plan_buffers(ActivationLayout& activations,
                                                   ArenaLayout& scratch,
                                                   const BatchShape& shape) const {
  const TokenDispatch::Rows dispatched = dispatched_rows(shape);
  const std::int64_t rows = dispatched.own, sorted = dispatch_->most_sorted_rows(dispatched);
  auto planned = std::make_unique<Saved>();
  Saved& saved = *planned;
  saved.router = router_.plan_buffers(activations, scratch, rows);
  saved.losses = losses_.plan_buffers(activations, scratch, shape, rows);
  saved.capacity = capacity_.plan_buffers(activations, scratch, rows);
  saved.tokens = dispatch_->plan_buffers(activations, scratch, dispatched);
  saved.experts = experts_.plan_buffers(activations, scratch, sorted);
  saved.sorted = scratch.take(dtype_, {sorted, hidden_});
  if (shared_) plan_shared(saved, activations, scratch, shape);
  return planned;
}

TokenDispatch::Rows Moe::dispatched_rows(const BatchShape& shape) const {
  const std::int64_t rows = rows_.local_rows(shape);
  return {rows, padded_rows(spec_, shape.batch, shape.seq * context_size_, rows)};
}

void Moe::plan_shared(Saved& saved, ActivationLayout& activations, ArenaLayout& scratch,
                      const BatchShape& shape) const {
  const Shape rows{rows_.local_rows(shape), hidden_};
  saved.shared = shared_->plan_buffers(activations, scratch, shape);
  saved.shared_y = (gate_ ? activations.until_input : scratch).take(dtype_, rows);
  if (activations.gradients) saved.shared_d = scratch.take(dtype_, rows);
  if (!gate_) return;
  saved.gate = gate_->plan_buffers(activations, scratch, rows[0]);
  saved.gated = scratch.take(dtype_, rows);
}

void Moe::forward(Context& context, const Microbatch& batch, View y, ConstView x,
                  Sublayer::Saved& state, const LinearScratch& linear) const {
  auto& saved = static_cast<Saved&>(state);
  TokenDispatch::Saved& tokens = *saved.tokens;
  saved.x = x;
  router_.forward(context, batch, x, saved.router);
  dispatch_->route(context, capacity_.limit(context, batch, saved.router, saved.capacity),
                   saved.router.weight, batch.training ? dispatched_rows(batch.shape).padded : 0,
                   tokens);
  const TokenDispatch::Sent sent = dispatch_->send(context, x, tokens);
  ConstView shared;
  if (shared_) shared = shared_forward(context, batch, saved, linear);
  dispatch_->receive(context, first_rows(saved.experts.x, tokens), sent, tokens);
  const View sorted = first_rows(saved.sorted, tokens);
  experts_.forward(context, sorted, sorted_rows(tokens), saved.experts);
  dispatch_->combine(context, y, sorted, tokens);
  if (shared_) context.kernels.add_dropout(context.stream, y, y, shared, {});
}

ConstView Moe::shared_forward(Context& context, const Microbatch& batch, Saved& saved,
                              const LinearScratch& linear) const {
  shared_->forward(context, batch, saved.shared_y, saved.x, *saved.shared, linear);
  if (!gate_) return saved.shared_y;
  gate_->forward(context, batch, saved.x, saved.gate);
  context.kernels.scale_rows(context.stream, saved.gated, saved.shared_y,
                             saved.gate.weight.reshape({saved.x.dim(0)}));
  return saved.gated;
}

ConstView Moe::gate_backward(Context& context, ConstView dy, const Saved& saved) const {
  const Shape rows{dy.dim(0)};
  context.kernels.row_dot(context.stream, saved.gate.dweight.reshape(rows), dy, saved.shared_y);
  context.kernels.scale_rows(context.stream, saved.gated, dy, saved.gate.weight.reshape(rows));
  return saved.gated;
}

void Moe::count(Context& context, const Saved& saved) const {
  if (load_.counts())
    context.kernels.count_experts(context.stream, load_.counts(), saved.router.expert);
  if (load_.kept())
    context.kernels.count_experts(context.stream, load_.kept(), saved.capacity.kept);
}

WorkHandle Moe::backward_input(Context& context, const Microbatch& batch, View dx, ConstView dy,
                               Sublayer::Saved& state, const LinearScratch& linear) {
  auto& saved = static_cast<Saved&>(state);
  const TokenDispatch::Saved& tokens = *saved.tokens;
  const TokenDispatch::Sent sent = dispatch_->send(context, dy, tokens);
  WorkHandle shared;
  if (shared_) {
    const ConstView d = gate_ ? gate_backward(context, dy, saved) : dy;
    shared = shared_->backward_input(context, batch, saved.shared_d, d, *saved.shared, linear);
  }
  dispatch_->receive(context, first_rows(saved.experts.dy, tokens), sent, tokens);
  const View sorted = first_rows(saved.sorted, tokens);
  experts_.backward_input(context, sorted, sorted_rows(tokens), saved.experts);
  dispatch_->combine(context, dx, sorted, tokens);
  dispatch_->combine_weights(context, saved.router.dweight,
                             first_rows(saved.experts.dweight, tokens), tokens);
  count(context, saved);
  router_.backward_input(context, batch, dx, saved.router,
                         losses_.run(context, batch.shape, saved.router, saved.losses));
  if (gate_) gate_->backward_input(context, batch, dx, saved.gate);
  if (shared_) {
    shared->wait(context.stream);
    context.kernels.add_dropout(context.stream, dx, dx, saved.shared_d, {});
  }
  return std::make_shared<Work>();
}

void Moe::backward_weight(Context& context, Sublayer::Saved& state, const LinearScratch& linear) {
  auto& saved = static_cast<Saved&>(state);
  experts_.backward_weight(context, sorted_rows(*saved.tokens), saved.experts);
  router_.backward_weight(context, saved.router);
  if (shared_) shared_->backward_weight(context, *saved.shared, linear);
  if (gate_) gate_->backward_weight(context, saved.gate);
}

}  // namespace tessera
