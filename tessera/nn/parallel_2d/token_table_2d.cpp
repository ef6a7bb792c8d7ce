#include "tessera/nn/parallel_2d/token_table_2d.h"

namespace tessera {

TokenTable2d::TokenTable2d(std::int64_t vocab, std::int64_t hidden, double init_std,
                           const LayerContext& layer)
    : TokenTable(vocab, hidden, init_std, layer), side_(layer.tensor_2d) {}

TokenTable::Scratch TokenTable2d::plan_scratch(ArenaLayout& scratch,
                                               const BatchShape& shape) const {
  const std::int64_t rows = shape.rows();
  const std::int64_t channels = table_.shape()[1];
  return {scratch.take(table_.dtype(), {side_, rows, channels}),
          scratch.take(table_.dtype(), {rows, channels}), scratch.take(DType::i32, {side_ * rows})};
}

std::size_t TokenTable2d::workspace_bytes(const Kernels& kernels, const BatchShape& shape) const {
  return kernels.embedding_workspace_bytes(side_ * shape.rows());
}

ConstView TokenTable2d::gather_tokens(Context& context, const Microbatch& batch,
                                      const Scratch& scratch) const {
  context.mesh.tensor_column()
      .all_gather(scratch.ids, batch.tokens, context.stream)
      ->wait(context.stream);
  return scratch.ids;
}

void TokenTable2d::exchange(Context& context, View to, ConstView from) const {
  Communicator& group = context.mesh.tensor();
  const int other = group.rank() % side_ * side_ + group.rank() / side_;
  if (other == group.rank()) return context.kernels.copy(context.stream, to, from);
  WorkHandle sent, received;
  group.grouped([&] {
    sent = group.send(from, other, context.stream);
    received = group.recv(to, other, context.stream);
  });
  sent->wait(context.stream);
  received->wait(context.stream);
}

void TokenTable2d::forward(Context& context, const Microbatch& batch, View y,
                           const Scratch& scratch) const {
  const ConstView ids = gather_tokens(context, batch, scratch);
  context.kernels.embedding_forward(context.stream, scratch.all.rows(), ids, table_.value(),
                                    first_row_, false);
  context.mesh.tensor_row()
      .reduce_scatter(scratch.part, scratch.all, ReduceOp::sum, context.stream)
      ->wait(context.stream);
  exchange(context, y, scratch.part);
}

WorkHandle TokenTable2d::gather(Context& context, ConstView dy, const Scratch& scratch) const {
  exchange(context, scratch.part, dy);
  return context.mesh.tensor_row().all_gather(scratch.all, scratch.part, context.stream);
}

void TokenTable2d::backward(Context& context, const Microbatch& batch, ConstView,
                            const Scratch& scratch) {
  const ConstView ids = gather_tokens(context, batch, scratch);
  const Gradient table = table_.grad();
  context.kernels.embedding_backward(context.stream, table.view, scratch.all.rows(), ids,
                                     first_row_, table.accumulate, context.workspace);
}

}  // namespace tessera
