#include "tessera/nn/moe/token_dispatch.h"

#include "tessera/base/check.h"

namespace tessera {

TokenDispatch::TokenDispatch(std::int64_t experts, std::int64_t hidden, const LayerContext& layer)
    : dtype_(layer.dtype),
      hidden_(hidden),
      ranks_(std::int64_t{layer.expert_size} * layer.expert_tensor_size),
      local_(layer.local_experts(experts)),
      first_(layer.first_expert(experts)) {
  check(experts % layer.expert_size == 0,
        "{} experts cannot be spread evenly over {} expert-parallel ranks", experts,
        layer.expert_size);
}

TokenDispatch::Saved TokenDispatch::plan_buffers(ActivationLayout& activations,
                                                 ArenaLayout& scratch, std::int64_t rows) const {
  const Shape all{all_rows(rows)};
  Saved saved;
  saved.order = activations.until_input.take(DType::i32, all);
  saved.place = activations.until_input.take(DType::i32, all);
  saved.offsets = activations.until_weight.take(DType::i32, {local_ + 1});
  saved.expert = scratch.take(DType::i32, all);
  saved.all = scratch.take(dtype_, {all_rows(rows), hidden_});
  return saved;
}

void TokenDispatch::route(Context& context, ConstView expert, const Saved& saved) const {
  context.mesh.expert_tensor_expert()
      .all_gather(saved.expert.reshape({ranks_, expert.dim(0)}), expert, context.stream)
      ->wait(context.stream);
  context.kernels.sort_by_expert(context.stream, saved.order, saved.place, saved.offsets,
                                 saved.expert, first_);
}

// The permutation runs as an embedding lookup by row number; -1 gives a row of zeros.
void TokenDispatch::dispatch(Context& context, View sorted, ConstView rows,
                             const Saved& saved) const {
  context.mesh.expert_tensor_expert()
      .all_gather(saved.all.reshape({ranks_, rows.dim(0), hidden_}), rows, context.stream)
      ->wait(context.stream);
  context.kernels.embedding_forward(context.stream, sorted, saved.order, saved.all, 0, false);
}

void TokenDispatch::combine(Context& context, View rows, ConstView sorted,
                            const Saved& saved) const {
  context.kernels.embedding_forward(context.stream, saved.all, saved.place, sorted, 0, false);
  context.mesh.expert_tensor_expert()
      .reduce_scatter(rows, saved.all.reshape({ranks_, rows.dim(0), hidden_}), ReduceOp::sum,
                      context.stream)
      ->wait(context.stream);
}

}  // namespace tessera
