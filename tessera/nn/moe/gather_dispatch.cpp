#include "tessera/nn/moe/gather_dispatch.h"

#include <algorithm>

namespace tessera {

GatherDispatch::GatherDispatch(std::int64_t experts, std::int64_t topk, std::int64_t hidden,
                               const LayerContext& layer)
    : dtype_(layer.dtype),
      topk_(topk),
      hidden_(hidden),
      ranks_(layer.expert_ranks()),
      local_(layer.local_experts(experts)),
      first_(layer.first_expert(experts)) {}

std::int64_t GatherDispatch::most_sorted_rows(std::int64_t rows) const {
  return all_rows(rows) * std::min(topk_, local_);
}

std::unique_ptr<TokenDispatch::Saved> GatherDispatch::plan_buffers(ActivationLayout& activations,
                                                                   ArenaLayout& scratch,
                                                                   std::int64_t rows) const {
  const DType acc = accumulator_type(dtype_);
  const Shape pairs{all_rows(rows), topk_}, sorted{most_sorted_rows(rows)};
  auto saved = std::make_unique<Saved>();
  saved->order = activations.until_input.take(DType::i32, sorted);
  saved->place = activations.until_input.take(DType::i32, pairs);
  saved->offsets = activations.until_weight.take(DType::i32, {local_ + 1});
  saved->weight = activations.until_input.take(acc, sorted);
  saved->rows = sorted[0];
  if (ranks_ == 1) return saved;
  saved->expert = scratch.take(DType::i32, pairs);
  saved->weights = scratch.take(acc, pairs);
  saved->all = scratch.take(dtype_, {all_rows(rows), hidden_});
  return saved;
}

TokenDispatch::Sent GatherDispatch::gather(Context& context, const View& all,
                                           const ConstView& rows) const {
  if (ranks_ == 1) return {std::make_shared<Work>(), rows};
  const View parts = all.reshape({ranks_, rows.dim(0), rows.dim(1)});
  return {context.mesh.expert_tensor_expert().all_gather(parts, rows, context.stream), all};
}

ConstView GatherDispatch::gathered(Context& context, const View& all, const ConstView& rows) const {
  const Sent sent = gather(context, all, rows);
  sent.work->wait(context.stream);
  return sent.rows;
}

void GatherDispatch::sum(Context& context, const View& rows, const View& all) const {
  if (ranks_ == 1) return;
  context.mesh.expert_tensor_expert()
      .reduce_scatter(rows, all.reshape({ranks_, rows.dim(0), rows.dim(1)}), ReduceOp::sum,
                      context.stream)
      ->wait(context.stream);
}

// The weights are permuted as rows with one column each.
void GatherDispatch::route(Context& context, ConstView expert, ConstView weight,
                           TokenDispatch::Saved& state) const {
  const auto& saved = static_cast<Saved&>(state);
  context.kernels.sort_by_expert(context.stream, saved.order, saved.place, saved.offsets,
                                 gathered(context, saved.expert, expert), first_);
  const ConstView weights = gathered(context, saved.weights, weight);
  context.kernels.permute_rows(context.stream, saved.weight.reshape({saved.weight.dim(0), 1}),
                               weights.reshape({weights.numel(), 1}), saved.order, 1);
}

TokenDispatch::Sent GatherDispatch::send(Context& context, ConstView rows,
                                         const TokenDispatch::Saved& state) const {
  return gather(context, static_cast<const Saved&>(state).all, rows);
}

void GatherDispatch::receive(Context& context, View sorted, const Sent& sent,
                             const TokenDispatch::Saved& state) const {
  sent.work->wait(context.stream);
  context.kernels.permute_rows(context.stream, sorted, sent.rows,
                               static_cast<const Saved&>(state).order, topk_);
}

void GatherDispatch::combine(Context& context, View rows, ConstView sorted,
                             const TokenDispatch::Saved& state) const {
  const auto& saved = static_cast<const Saved&>(state);
  context.kernels.unpermute_rows(context.stream, partial_sum(saved.all, rows), sorted, saved.place);
  sum(context, rows, saved.all);
}

void GatherDispatch::combine_weights(Context& context, View weights, ConstView sorted,
                                     const TokenDispatch::Saved& state) const {
  const auto& saved = static_cast<const Saved&>(state);
  const View pairs = partial_sum(saved.weights, weights);
  context.kernels.unpermute_rows(context.stream, pairs.reshape({pairs.numel(), 1}),
                                 sorted.reshape({sorted.dim(0), 1}),
                                 saved.place.reshape({pairs.numel(), 1}));
  sum(context, weights, saved.weights);
}

}  // namespace tessera
