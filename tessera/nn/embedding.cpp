#include "tessera/nn/embedding.h"

namespace tessera {

Parameter vocab_parallel_table(const std::string& name, std::int64_t vocab, std::int64_t hidden,
                               double init_std, const LayerSite& site) {
  const Range rows = share_of(vocab, site.tensor_size, site.tensor_rank);
  const ShardPiece piece{{rows.begin, 0}, {rows.length(), hidden}, 0, {hidden, 1}};
  return {site.dtype,
          {rows.length(), hidden},
          {{name, {vocab, hidden}, {piece}}},
          {InitKind::normal, init_std}};
}

Embedding::Embedding(const EmbeddingSpec& spec, const LayerSite& site)
    : spec_(spec),
      dtype_(site.dtype),
      first_row_(share_of(spec.vocab, site.tensor_size, site.tensor_rank).begin),
      dropout_key_(rng_key(site.seed, RngPurpose::hidden_dropout, "embedding")),
      table_(vocab_parallel_table("embedding.word.weight", spec.vocab, spec.hidden, spec.init_std,
                                  site)) {
  if (spec.positions > 0)
    positions_ =
        replicated_parameter(site.dtype, "embedding.position.weight", {spec.positions, spec.hidden},
                             {InitKind::normal, spec.init_std}, site.tensor_rank);
}

void Embedding::collect(ParameterList& parameters) {
  parameters.push_back(&table_);
  if (positions_) parameters.push_back(&*positions_);
}

Embedding::Scratch Embedding::carve_scratch(Carver& scratch, const BatchShape& shape) const {
  if (spec_.dropout <= 0) return {};
  return {scratch.take(dtype_, {shape.rows(), spec_.hidden})};
}

std::size_t Embedding::workspace_bytes(const Kernels& kernels, const BatchShape& shape) const {
  return kernels.embedding_workspace_bytes(shape.rows());
}

DropoutSpec Embedding::dropout(const Microbatch& batch) const {
  return {batch.training ? spec_.dropout : 0.0, dropout_key_, batch.samples, batch.position_start};
}

void Embedding::forward(Context& context, const Microbatch& batch, View y) const {
  Kernels& kernels = context.kernels;
  kernels.embedding_forward(context.stream, y, batch.tokens, table_.value(), first_row_, false);
  context.mesh.tensor().all_reduce(y, ReduceOp::sum, context.stream)->wait(context.stream);
  if (positions_)
    kernels.embedding_forward(context.stream, y, batch.positions.reshape({batch.shape.rows()}),
                              positions_->value(), 0, true);
  const DropoutSpec spec = dropout(batch);
  if (spec.p > 0) kernels.add_dropout(context.stream, y, {}, y, spec);
}

void Embedding::backward(Context& context, const Microbatch& batch, ConstView dy,
                         const Scratch& scratch) {
  Kernels& kernels = context.kernels;
  const DropoutSpec spec = dropout(batch);
  if (spec.p > 0) {
    kernels.add_dropout(context.stream, scratch.dropped, {}, dy, spec);
    dy = scratch.dropped;
  }
  const Gradient table = table_.grad();
  kernels.embedding_backward(context.stream, table.view, dy, batch.tokens, first_row_,
                             table.accumulate, context.workspace);
  if (!positions_) return;
  const Gradient positions = positions_->grad();
  kernels.embedding_backward(context.stream, positions.view, dy,
                             batch.positions.reshape({batch.shape.rows()}), 0, positions.accumulate,
                             context.workspace);
}

}  // namespace tessera
