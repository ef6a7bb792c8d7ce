#include "tessera/nn/moe/moe.h"

namespace tessera {

Moe::Moe(const MoeSpec& spec, const LayerContext& layer)
    : dtype_(layer.dtype),
      hidden_(spec.expert.hidden),
      rows_(layer),
      router_(spec, layer),
      dispatch_(spec.experts, spec.expert.hidden, layer),
      experts_(spec, layer) {}

void Moe::collect(ParameterList& parameters) {
  router_.collect(parameters);
  experts_.collect(parameters);
}

std::unique_ptr<Sublayer::Saved> Moe::plan_buffers(ActivationLayout& activations,
                                                   ArenaLayout& scratch,
                                                   const BatchShape& shape) const {
  const std::int64_t rows = rows_.local_rows(shape), all = dispatch_.all_rows(rows);
  auto planned = std::make_unique<Saved>();
  Saved& saved = *planned;
  saved.router = router_.plan_buffers(activations, scratch, rows);
  saved.tokens = dispatch_.plan_buffers(activations, scratch, rows);
  saved.experts = experts_.plan_buffers(activations, scratch, all);
  saved.output = activations.until_input.take(dtype_, {rows, hidden_});
  if (activations.gradients) saved.doutput = scratch.take(dtype_, {rows, hidden_});
  saved.sorted = scratch.take(dtype_, {all, hidden_});
  return planned;
}

void Moe::forward(Context& context, const Microbatch&, View y, ConstView x, Sublayer::Saved& state,
                  const LinearScratch&) const {
  auto& saved = static_cast<Saved&>(state);
  saved.x = x;
  router_.forward(context, x, saved.router);
  dispatch_.route(context, saved.router.expert, saved.tokens);
  dispatch_.dispatch(context, saved.experts.x, x, saved.tokens);
  experts_.forward(context, saved.sorted, saved.tokens.offsets, saved.experts);
  dispatch_.combine(context, saved.output, saved.sorted, saved.tokens);
  context.kernels.scale_rows(context.stream, y, saved.output, saved.router.probability);
}

WorkHandle Moe::backward_input(Context& context, const Microbatch&, View dx, ConstView dy,
                               Sublayer::Saved& state, const LinearScratch&) {
  auto& saved = static_cast<Saved&>(state);
  context.kernels.scale_rows(context.stream, saved.doutput, dy, saved.router.probability);
  dispatch_.dispatch(context, saved.experts.dy, saved.doutput, saved.tokens);
  experts_.backward_input(context, saved.sorted, saved.tokens.offsets, saved.experts);
  dispatch_.combine(context, dx, saved.sorted, saved.tokens);
  router_.backward_input(context, dx, dy, saved.output, saved.router);
  return std::make_shared<Work>();
}

void Moe::backward_weight(Context& context, Sublayer::Saved& state, const LinearScratch&) {
  auto& saved = static_cast<Saved&>(state);
  experts_.backward_weight(context, saved.tokens.offsets, saved.experts);
  router_.backward_weight(context, saved.x, saved.router);
}

}  // namespace tessera
