#include "tessera/nn/row_layout.h"

namespace tessera {

RowLayout::RowLayout(const LayerContext& layer)
    : ranks_(layer.tensor_size),
      row_shards_(layer.sequence_parallel ? layer.tensor_size : 1),
      row_shard_(layer.sequence_parallel ? layer.tensor_rank : 0),
      channel_shards_(layer.channel_shards()),
      channel_shard_(layer.channel_shard()) {}

ConstView RowLayout::local_rows(const ConstView& rows) const {
  const std::int64_t count = rows.dim(0) / row_shards_;
  return rows.slice(0, count * row_shard_, count);
}

AllRows RowLayout::plan_buffers(ArenaLayout& scratch, DType dtype, const BatchShape& shape,
                                std::int64_t width, bool gradients) const {
  const auto take = [&](bool wanted) {
    return wanted ? plan_buffer(scratch, dtype, shape, width) : View();
  };
  return {take(true), take(gradients), take(true)};
}

WorkHandle RowLayout::gather(Context& context, View all, ConstView rows) const {
  if (!split()) return std::make_shared<Work>();
  return context.mesh.tensor().all_gather(all.reshape({row_shards_, rows.dim(0), rows.dim(1)}),
                                          rows, context.stream);
}

ConstView RowLayout::gather_now(Context& context, View all, ConstView rows) const {
  if (split()) gather(context, all, rows)->wait(context.stream);
  return gathered(all, rows);
}

WorkHandle RowLayout::sum(Context& context, View rows, View partial) const {
  Communicator& group = context.mesh.tensor();
  if (!split()) return group.all_reduce(rows, ReduceOp::sum, context.stream);
  return group.reduce_scatter(rows, partial.reshape({row_shards_, rows.dim(0), rows.dim(1)}),
                              ReduceOp::sum, context.stream);
}

}  // namespace tessera
