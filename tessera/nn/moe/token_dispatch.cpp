#include "tessera/nn/moe/token_dispatch.h"

#include <algorithm>

#include "tessera/base/check.h"

namespace tessera {

TokenDispatch::TokenDispatch(std::int64_t experts, std::int64_t topk, std::int64_t hidden,
                             const LayerContext& layer)
    : dtype_(layer.dtype),
      topk_(topk),
      hidden_(hidden),
      ranks_(std::int64_t{layer.expert_size} * layer.expert_tensor_size),
      local_(layer.local_experts(experts)),
      first_(layer.first_expert(experts)) {
  check(experts % layer.expert_size == 0,
        "{} experts cannot be spread evenly over {} expert-parallel ranks", experts,
        layer.expert_size);
}

std::int64_t TokenDispatch::sorted_rows(std::int64_t rows) const {
  return all_rows(rows) * std::min(topk_, local_);
}

TokenDispatch::Saved TokenDispatch::plan_buffers(ActivationLayout& activations,
                                                 ArenaLayout& scratch, std::int64_t rows) const {
  const DType acc = accumulator_type(dtype_);
  const Shape pairs{all_rows(rows), topk_}, sorted{sorted_rows(rows)};
  Saved saved;
  saved.order = activations.until_input.take(DType::i32, sorted);
  saved.place = activations.until_input.take(DType::i32, pairs);
  saved.offsets = activations.until_weight.take(DType::i32, {local_ + 1});
  saved.weight = activations.until_input.take(acc, sorted);
  if (ranks_ == 1) return saved;
  saved.expert = scratch.take(DType::i32, pairs);
  saved.weights = scratch.take(acc, pairs);
  saved.all = scratch.take(dtype_, {all_rows(rows), hidden_});
  return saved;
}

ConstView TokenDispatch::gathered(Context& context, const View& all, const ConstView& rows) const {
  if (ranks_ == 1) return rows;
  context.mesh.expert_tensor_expert()
      .all_gather(all.reshape({ranks_, rows.dim(0), rows.dim(1)}), rows, context.stream)
      ->wait(context.stream);
  return all;
}

void TokenDispatch::sum(Context& context, const View& rows, const View& all) const {
  if (ranks_ == 1) return;
  context.mesh.expert_tensor_expert()
      .reduce_scatter(rows, all.reshape({ranks_, rows.dim(0), rows.dim(1)}), ReduceOp::sum,
                      context.stream)
      ->wait(context.stream);
}

// The weights are permuted as rows with one column each.
void TokenDispatch::route(Context& context, ConstView expert, ConstView weight,
                          const Saved& saved) const {
  context.kernels.sort_by_expert(context.stream, saved.order, saved.place, saved.offsets,
                                 gathered(context, saved.expert, expert), first_);
  const ConstView weights = gathered(context, saved.weights, weight);
  context.kernels.permute_rows(context.stream, saved.weight.reshape({saved.weight.dim(0), 1}),
                               weights.reshape({weights.numel(), 1}), saved.order, 1);
}

void TokenDispatch::dispatch(Context& context, View sorted, ConstView rows,
                             const Saved& saved) const {
  context.kernels.permute_rows(context.stream, sorted, gathered(context, saved.all, rows),
                               saved.order, topk_);
}

void TokenDispatch::combine(Context& context, View rows, ConstView sorted,
                            const Saved& saved) const {
  context.kernels.unpermute_rows(context.stream, partial_sum(saved.all, rows), sorted, saved.place);
  sum(context, rows, saved.all);
}

void TokenDispatch::combine_weights(Context& context, View weights, ConstView sorted,
                                    const Saved& saved) const {
  const View pairs = partial_sum(saved.weights, weights);
  context.kernels.unpermute_rows(context.stream, pairs.reshape({pairs.numel(), 1}),
                                 sorted.reshape({sorted.dim(0), 1}),
                                 saved.place.reshape({pairs.numel(), 1}));
  sum(context, weights, saved.weights);
}

}  // namespace tessera
