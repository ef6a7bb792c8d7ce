#include "tessera/nn/token_table.h"

#include "tessera/nn/parallel_2d/token_table_2d.h"

namespace tessera {
namespace {

// Each rank has some of the rows. The rows that it looks up are a partial sum, and the gradient
// rows of other ranks are gathered.
class TokenTable1d final : public TokenTable {
 public:
  TokenTable1d(std::int64_t vocab, std::int64_t hidden, double init_std, const LayerContext& layer)
      : TokenTable(vocab, hidden, init_std, layer), rows_(layer) {}

  Scratch plan_scratch(ArenaLayout& scratch, const BatchShape& shape) const override {
    if (rows_.local_rows(shape) == shape.rows()) return {};
    return {scratch.take(table_.dtype(), {shape.rows(), table_.shape()[1]}), {}, {}};
  }
  std::size_t workspace_bytes(const Kernels& kernels, const BatchShape& shape) const override {
    return kernels.embedding_workspace_bytes(shape.rows());
  }

  void forward(Context& context, const Microbatch& batch, View y,
               const Scratch& scratch) const override {
    const View partial = rows_.partial_sum(scratch.all, y);
    context.kernels.embedding_forward(context.stream, partial, batch.tokens, table_.value(),
                                      first_row_, false);
    rows_.sum(context, y, partial)->wait(context.stream);
  }
  WorkHandle gather(Context& context, ConstView dy, const Scratch& scratch) const override {
    return rows_.gather(context, scratch.all, dy);
  }
  void backward(Context& context, const Microbatch& batch, ConstView dy,
                const Scratch& scratch) override {
    const Gradient table = table_.grad();
    context.kernels.embedding_backward(context.stream, table.view, rows_.gathered(scratch.all, dy),
                                       batch.tokens, first_row_, table.accumulate,
                                       context.workspace);
  }

 private:
  RowLayout rows_;
};

}  // namespace

Parameter vocab_parallel_table(const std::string& name, std::int64_t vocab, std::int64_t hidden,
                               double init_std, const LayerContext& layer) {
  const Range rows = balanced_range(vocab, layer.shards(), layer.shard());
  const Range columns = balanced_range(hidden, layer.channel_shards(), layer.tensor_row());
  const ShardPiece piece{
      {rows.begin, columns.begin}, {rows.length(), columns.length()}, 0, {columns.length(), 1}};
  return {
      layer.dtype, piece.extent, {{name, {vocab, hidden}, {piece}}}, {InitKind::normal, init_std}};
}

TokenTable::TokenTable(std::int64_t vocab, std::int64_t hidden, double init_std,
                       const LayerContext& layer)
    : first_row_(balanced_range(vocab, layer.shards(), layer.shard()).begin),
      table_(vocab_parallel_table(kTokenTableName, vocab, hidden, init_std, layer)) {}

std::unique_ptr<TokenTable> make_token_table(std::int64_t vocab, std::int64_t hidden,
                                             double init_std, const LayerContext& layer) {
  if (layer.tensor_2d > 0) return std::make_unique<TokenTable2d>(vocab, hidden, init_std, layer);
  return std::make_unique<TokenTable1d>(vocab, hidden, init_std, layer);
}

}  // namespace tessera
