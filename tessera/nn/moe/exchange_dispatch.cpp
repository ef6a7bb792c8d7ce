#include "tessera/nn/moe/exchange_dispatch.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace tessera {
namespace {

// A vector as rows with one column each.
View column(const View& x) { return x.reshape({x.numel(), 1}); }
ConstView column(const ConstView& x) { return x.reshape({x.numel(), 1}); }

}  // namespace

ExchangeDispatch::ExchangeDispatch(std::int64_t experts, std::int64_t topk, std::int64_t hidden,
                                   const LayerContext& layer)
    : dtype_(layer.dtype),
      topk_(topk),
      hidden_(hidden),
      ranks_(layer.expert_ranks()),
      rank_(std::int64_t{layer.expert_rank} * layer.expert_tensor_size + layer.expert_tensor_rank),
      copies_(layer.expert_tensor_size),
      local_(layer.local_experts(experts)) {}

std::int64_t ExchangeDispatch::most_sorted_rows(const Rows& rows) const {
  return ranks_ * std::max(rows.own * std::min(topk_, local_), local_ * rows.padded);
}

std::int64_t ExchangeDispatch::most_sent_rows(const Rows& rows) const {
  return std::max(rows.own * topk_ * copies_, ranks_ * local_ * rows.padded);
}

std::unique_ptr<TokenDispatch::Saved> ExchangeDispatch::plan_buffers(ActivationLayout& activations,
                                                                     ArenaLayout& scratch,
                                                                     const Rows& rows) const {
  const DType acc = accumulator_type(dtype_);
  const std::int64_t sent = most_sent_rows(rows), sorted = most_sorted_rows(rows);
  auto saved = std::make_unique<Saved>();
  saved->sent_order = activations.until_input.take(DType::i32, {sent});
  saved->sent_place = activations.until_input.take(DType::i32, {rows.own, topk_ * copies_});
  saved->received_order = activations.until_input.take(DType::i32, {sorted});
  saved->received_place = activations.until_input.take(DType::i32, {sorted, 1});
  saved->offsets = activations.until_weight.take(DType::i32, {local_ + 1});
  saved->weight = activations.until_input.take(acc, {sorted});
  if (copies_ > 1) saved->shard = scratch.take(DType::i32, {rows.own, topk_ * copies_});
  saved->offsets_of_ranks = scratch.take(DType::i32, {ranks_, ranks_ * local_ + 1});
  saved->sent = scratch.take(dtype_, {sent, hidden_});
  saved->received = scratch.take(dtype_, {sorted, hidden_});
  saved->sent_weights = scratch.take(acc, {sent});
  saved->received_weights = scratch.take(acc, {sorted});
  saved->sent_rows.resize(static_cast<std::size_t>(ranks_));
  saved->received_rows.resize(static_cast<std::size_t>(ranks_));
  saved->host_offsets.resize(static_cast<std::size_t>(saved->offsets_of_ranks.numel()));
  return saved;
}

std::int64_t ExchangeDispatch::sent_count(const Saved& saved) {
  return std::reduce(saved.sent_rows.begin(), saved.sent_rows.end());
}

ConstView ExchangeDispatch::shards(Context& context, const ConstView& expert,
                                   const Saved& saved) const {
  if (copies_ == 1) return expert;
  context.kernels.expert_shards(context.stream, saved.shard, expert, local_, copies_);
  return saved.shard;
}

void ExchangeDispatch::set_counts(Saved& saved, std::int64_t padded) const {
  std::ranges::fill(saved.sent_rows, local_ * padded);
  std::ranges::fill(saved.received_rows, local_ * padded);
  saved.rows = ranks_ * local_ * padded;
}

void ExchangeDispatch::read_counts(Context& context, Saved& saved) const {
  const View& all = saved.offsets_of_ranks;
  Stream& stream = context.stream;
  stream.api().copy_bytes(stream.native(), saved.host_offsets.data(), all.raw(), all.bytes());
  stream.synchronize();
  // Rows that one rank sends to another.
  const auto count = [&](std::int64_t from, std::int64_t to) -> std::int64_t {
    const std::int32_t* offsets = saved.host_offsets.data() + from * all.dim(1);
    return offsets[(to + 1) * local_] - offsets[to * local_];
  };
  saved.rows = 0;
  for (std::int64_t other = 0; other < ranks_; ++other) {
    const auto i = static_cast<std::size_t>(other);
    saved.sent_rows[i] = count(rank_, other);
    saved.received_rows[i] = count(other, rank_);
    saved.rows += saved.received_rows[i];
  }
}

WorkHandle ExchangeDispatch::there(Context& context, const View& received, const ConstView& sent,
                                   const Saved& saved) const {
  return context.mesh.expert_tensor_expert().all_to_all_rows(received, saved.received_rows, sent,
                                                             saved.sent_rows, context.stream);
}

WorkHandle ExchangeDispatch::back(Context& context, const View& sent, const ConstView& received,
                                  const Saved& saved) const {
  return context.mesh.expert_tensor_expert().all_to_all_rows(sent, saved.sent_rows, received,
                                                             saved.received_rows, context.stream);
}

void ExchangeDispatch::route(Context& context, ConstView expert, ConstView weight,
                             std::int64_t padded, TokenDispatch::Saved& state) const {
  auto& saved = static_cast<Saved&>(state);
  Kernels& kernels = context.kernels;
  Stream& stream = context.stream;
  const View own = saved.offsets_of_ranks.slice(0, rank_, 1);
  kernels.sort_by_expert(stream, saved.sent_order, saved.sent_place, own.reshape({own.numel()}),
                         shards(context, expert, saved), 0, padded);
  context.mesh.expert_tensor_expert().all_gather(saved.offsets_of_ranks, own, stream)->wait(stream);
  if (padded > 0)
    set_counts(saved, padded);
  else
    read_counts(context, saved);
  const View order = saved.received_order.slice(0, 0, saved.rows);
  kernels.sort_received(stream, order, saved.received_place.slice(0, 0, saved.rows), saved.offsets,
                        saved.offsets_of_ranks, rank_);
  const View sent = column(saved.sent_weights.slice(0, 0, sent_count(saved)));
  const View received = column(saved.received_weights.slice(0, 0, saved.rows));
  kernels.permute_rows(stream, sent, column(weight), saved.sent_order.slice(0, 0, sent.dim(0)),
                       copies_);
  there(context, received, sent, saved)->wait(stream);
  kernels.permute_rows(stream, column(saved.weight.slice(0, 0, saved.rows)), received, order, 1);
}

TokenDispatch::Sent ExchangeDispatch::send(Context& context, ConstView rows,
                                           const TokenDispatch::Saved& state) const {
  const auto& saved = static_cast<const Saved&>(state);
  const View sent = saved.sent.slice(0, 0, sent_count(saved));
  const View received = saved.received.slice(0, 0, saved.rows);
  context.kernels.permute_rows(context.stream, sent, rows,
                               saved.sent_order.slice(0, 0, sent.dim(0)), topk_ * copies_);
  return {there(context, received, sent, saved), received};
}

void ExchangeDispatch::receive(Context& context, View sorted, const Sent& sent,
                               const TokenDispatch::Saved& state) const {
  const auto& saved = static_cast<const Saved&>(state);
  sent.work->wait(context.stream);
  context.kernels.permute_rows(context.stream, sorted, sent.rows,
                               saved.received_order.slice(0, 0, saved.rows), 1);
}

void ExchangeDispatch::combine(Context& context, View rows, ConstView sorted,
                               const TokenDispatch::Saved& state) const {
  const auto& saved = static_cast<const Saved&>(state);
  const View sent = saved.sent.slice(0, 0, sent_count(saved));
  const View received = saved.received.slice(0, 0, saved.rows);
  context.kernels.unpermute_rows(context.stream, received, sorted,
                                 saved.received_place.slice(0, 0, saved.rows));
  back(context, sent, received, saved)->wait(context.stream);
  context.kernels.unpermute_rows(context.stream, rows, sent, saved.sent_place);
}

void ExchangeDispatch::combine_weights(Context& context, View weights, ConstView sorted,
                                       const TokenDispatch::Saved& state) const {
  const auto& saved = static_cast<const Saved&>(state);
  const View sent = column(saved.sent_weights.slice(0, 0, sent_count(saved)));
  const View received = column(saved.received_weights.slice(0, 0, saved.rows));
  context.kernels.unpermute_rows(context.stream, received, column(sorted),
                                 saved.received_place.slice(0, 0, saved.rows));
  back(context, sent, received, saved)->wait(context.stream);
  context.kernels.unpermute_rows(context.stream, column(weights), sent,
                                 saved.sent_place.reshape({weights.numel(), copies_}));
}

}  // namespace tessera
