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

std::int64_t GatherDispatch::sorted_rows(std::int64_t all, std::int64_t padded) const {
  return padded > 0 ? ranks_ * local_ * padded : all * std::min(topk_, local_);
}

std::int64_t GatherDispatch::most_sorted_rows(const Rows& rows) const {
  const std::int64_t all = rows.own * ranks_;
  return std::max(sorted_rows(all, 0), sorted_rows(all, rows.padded));
}

ConstView GatherDispatch::order(const TokenDispatch::Saved& saved) {
  return static_cast<const Saved&>(saved).order.slice(0, 0, saved.rows);
}

std::unique_ptr<TokenDispatch::Saved> GatherDispatch::plan_buffers(ActivationLayout& activations,
                                                                   ArenaLayout& scratch,
                                                                   const Rows& rows) const {
  const DType acc = accumulator_type(dtype_);
  const std::int64_t all = rows.own * ranks_;
  const Shape pairs{all, topk_}, sorted{most_sorted_rows(rows)};
  auto saved = std::make_unique<Saved>();
  saved->order = activations.until_input.take(DType::i32, sorted);
  saved->place = activations.until_input.take(DType::i32, pairs);
  saved->offsets = activations.until_weight.take(DType::i32, {local_ + 1});
  saved->weight = activations.until_input.take(acc, sorted);
  if (ranks_ == 1) return saved;
  saved->expert = scratch.take(DType::i32, pairs);
  saved->weights = scratch.take(acc, pairs);
  saved->all = scratch.take(dtype_, {all, hidden_});
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
                           std::int64_t padded, TokenDispatch::Saved& state) const {
  auto& saved = static_cast<Saved&>(state);
  saved.rows = sorted_rows(saved.place.dim(0), padded);
  context.kernels.sort_by_expert(context.stream, saved.order.slice(0, 0, saved.rows), saved.place,
                                 saved.offsets, gathered(context, saved.expert, expert), first_,
                                 padded * ranks_);
  const ConstView weights = gathered(context, saved.weights, weight);
  context.kernels.permute_rows(context.stream,
                               saved.weight.slice(0, 0, saved.rows).reshape({saved.rows, 1}),
                               weights.reshape({weights.numel(), 1}), order(saved), 1);
}

TokenDispatch::Sent GatherDispatch::send(Context& context, ConstView rows,
                                         const TokenDispatch::Saved& state) const {
  return gather(context, static_cast<const Saved&>(state).all, rows);
}

void GatherDispatch::receive(Context& context, View sorted, const Sent& sent,
                             const TokenDispatch::Saved& state) const {
  sent.work->wait(context.stream);
  context.kernels.permute_rows(context.stream, sorted, sent.rows, order(state), topk_);
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
