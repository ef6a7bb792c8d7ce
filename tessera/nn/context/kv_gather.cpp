#include "tessera/nn/context/kv_gather.h"

namespace tessera {

// The buffers of both directions share memory, since they are never in use at the same time.
KvGather::Scratch KvGather::plan_scratch(ArenaLayout& scratch, const BatchShape& shape,
                                         bool gradients) const {
  Scratch views;
  const DType acc = accumulator_type(dtype_);
  const std::int64_t width = kv_heads_ * (k_size_ + v_size_);
  const Shape by_rank{ranks_, shape.seq, shape.batch, width};
  const Shape by_position{ranks_ * shape.seq, shape.batch, width};
  views.by_position = scratch.take(dtype_, by_position);
  if (gradients) views.d_by_position = scratch.take(acc, by_position);
  ArenaLayout forward = scratch;
  views.by_rank = forward.take(dtype_, by_rank);
  ArenaLayout backward = scratch;
  if (gradients) views.d_by_rank = backward.take(acc, by_rank);
  scratch.include(forward);
  scratch.include(backward);
  return views;
}

View KvGather::keys(const View& rows) const {
  return rows.slice(2, 0, kv_heads_ * k_size_).split_last({kv_heads_, k_size_});
}
View KvGather::values(const View& rows) const {
  return rows.slice(2, kv_heads_ * k_size_, kv_heads_ * v_size_).split_last({kv_heads_, v_size_});
}
View KvGather::own(const Context& context, const View& by_rank) const {
  return by_rank.slice(0, context.mesh.context().rank(), 1)
      .reshape({by_rank.dim(1), by_rank.dim(2), by_rank.dim(3)});
}

// Calls f(chunks by rank, the same chunks by position): once for all first chunks, which are in the
// order of the ranks, and once for each second chunk, since those are in reverse order.
template <class F>
void KvGather::for_each_chunk(const View& by_rank, const View& by_position, F&& f) const {
  const std::int64_t chunk = by_rank.numel() / (std::int64_t{2} * ranks_);
  const View ranks = by_rank.reshape({ranks_, 2, chunk});
  const View positions = by_position.reshape({std::int64_t{2} * ranks_, 1, chunk});
  f(ranks.slice(1, 0, 1), positions.slice(0, 0, ranks_));
  for (std::int64_t rank = 0; rank < ranks_; ++rank)
    f(ranks.slice(0, rank, 1).slice(1, 1, 1), positions.slice(0, 2 * ranks_ - 1 - rank, 1));
}

WorkHandle KvGather::start(Context& context, ConstView k, ConstView v,
                           const Scratch& scratch) const {
  const View rows = own(context, scratch.by_rank);
  context.kernels.copy(context.stream, keys(rows), k);
  context.kernels.copy(context.stream, values(rows), v);
  return context.mesh.context().all_gather(scratch.by_rank, rows, context.stream);
}

void KvGather::finish(Context& context, Work& gathering, const Scratch& scratch) const {
  gathering.wait(context.stream);
  for_each_chunk(scratch.by_rank, scratch.by_position,
                 [&](const View& ranks, const View& positions) {
                   context.kernels.copy(context.stream, positions, ranks);
                 });
}

KvGather::KeysValues KvGather::all(const Scratch& scratch) const {
  return {keys(scratch.by_position), values(scratch.by_position)};
}

KvGather::Gradients KvGather::begin_gradients(Context& context, const Scratch& scratch) const {
  context.kernels.fill(context.stream, scratch.d_by_position, 0);
  return {keys(scratch.d_by_position), values(scratch.d_by_position)};
}

void KvGather::sum_gradients(Context& context, View dk, View dv, const Scratch& scratch) const {
  for_each_chunk(scratch.d_by_rank, scratch.d_by_position,
                 [&](const View& ranks, const View& positions) {
                   context.kernels.copy(context.stream, ranks, positions);
                 });
  const View rows = own(context, scratch.d_by_rank);
  context.mesh.context()
      .reduce_scatter(rows, scratch.d_by_rank, ReduceOp::sum, context.stream)
      ->wait(context.stream);
  context.kernels.copy(context.stream, dk, keys(rows));
  context.kernels.copy(context.stream, dv, values(rows));
}

}  // namespace tessera
