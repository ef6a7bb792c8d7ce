#include "tessera/nn/token_table.h"

#include "tessera/nn/token_table_2d.h"

namespace tessera {
namespace {

// Each rank has some of the rows: what it looks up is a partial sum, and what others keep of the
// gradient is gathered.
class LineTokenTable final : public TokenTable {
 public:
  LineTokenTable(std::int64_t vocab, std::int64_t hidden, double init_std, const LayerSite& site)
      : TokenTable(vocab, hidden, init_std, site), rows_(site) {}

  Scratch plan_scratch(ArenaLayout& scratch, const BatchShape& shape) const override {
    if (rows_.kept(shape) == shape.rows()) return {};
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
                               double init_std, const LayerSite& site) {
  const Range rows = share_of(vocab, site.shares(), site.share());
  const Range columns = share_of(hidden, site.channel_shares(), site.tensor_row());
  const ShardPiece piece{
      {rows.begin, columns.begin}, {rows.length(), columns.length()}, 0, {columns.length(), 1}};
  return {
      site.dtype, piece.extent, {{name, {vocab, hidden}, {piece}}}, {InitKind::normal, init_std}};
}

TokenTable::TokenTable(std::int64_t vocab, std::int64_t hidden, double init_std,
                       const LayerSite& site)
    : first_row_(share_of(vocab, site.shares(), site.share()).begin),
      table_(vocab_parallel_table(kTokenTableName, vocab, hidden, init_std, site)) {}

std::unique_ptr<TokenTable> make_token_table(std::int64_t vocab, std::int64_t hidden,
                                             double init_std, const LayerSite& site) {
  if (site.tensor_2d > 0) return std::make_unique<TokenTable2d>(vocab, hidden, init_std, site);
  return std::make_unique<LineTokenTable>(vocab, hidden, init_std, site);
}

}  // namespace tessera
