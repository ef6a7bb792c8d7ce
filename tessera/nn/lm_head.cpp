#include "tessera/nn/lm_head.h"

#include <algorithm>

#include "tessera/nn/embedding.h"

namespace tessera {

LmHead::LmHead(std::int64_t vocab, std::int64_t hidden, double init_std, const LayerSite& site,
               Parameter* shared)
    : hidden_(hidden),
      dtype_(site.dtype),
      most_logits_(site.most_logits),
      rows_(share_of(vocab, site.tensor_size, site.tensor_rank)),
      shared_(shared) {
  if (!shared) own_ = vocab_parallel_table("output.weight", vocab, hidden, init_std, site);
}

void LmHead::collect(ParameterList& parameters) {
  if (own_) parameters.push_back(&*own_);
}

// Enough rows for a fast product, few enough to stay small beside the model.
std::int64_t LmHead::chunk_rows(const BatchShape& shape) const {
  const std::int64_t rows = std::max<std::int64_t>(
      64, most_logits_ / std::max<std::int64_t>(1, rows_.length()) / 64 * 64);
  return std::min(shape.rows(), rows);
}

LmHead::Saved LmHead::carve(SlotCarver& slot, const BatchShape& shape) const {
  return {slot.until_input.take(dtype_, {shape.rows(), hidden_}),
          slot.until_input.take(accumulator_of(dtype_), {shape.rows()})};
}

LmHead::Scratch LmHead::carve_scratch(Carver& scratch, const BatchShape& shape) const {
  const std::int64_t rows = chunk_rows(shape);
  const DType acc = accumulator_of(dtype_);
  return {scratch.take(dtype_, {rows, rows_.length()}), scratch.take(acc, {3, rows}),
          scratch.take(acc, {rows})};
}

void LmHead::logits(Context& context, View out, ConstView x) const {
  GemmSpec spec;
  spec.transpose_b = true;
  context.kernels.gemm(context.stream, out, ConstView(x), ConstView(weight().value()), spec,
                       context.workspace);
}

void LmHead::forward(Context& context, const Microbatch& batch, Saved& saved,
                     const Scratch& scratch) {
  const std::int64_t rows = saved.x.dim(0);
  const std::int64_t step = scratch.maximum.dim(0);
  for (std::int64_t begin = 0; begin < rows; begin += step) {
    const Chunk chunk{begin, std::min(step, rows - begin)};
    chunk_loss(context, batch, saved, scratch, chunk);
    if (batch.training) chunk_gradients(context, saved, scratch, chunk);
  }
}

// Two small reductions over the ranks that share the vocabulary: the maximum, then both sums at
// once.
void LmHead::chunk_loss(Context& context, const Microbatch& batch, Saved& saved,
                        const Scratch& scratch, const Chunk& chunk) {
  const auto part = [&](const auto& view) { return view.slice(0, chunk.begin, chunk.rows); };
  Kernels& kernels = context.kernels;
  Communicator& group = context.mesh.tensor();
  const View out = scratch.logits.slice(0, 0, chunk.rows);
  const View stats(scratch.stats.raw(), scratch.stats.dtype(), {3, chunk.rows});
  const View maximum = scratch.maximum.slice(0, 0, chunk.rows);
  logits(context, out, part(saved.x));
  kernels.softmax_stats(context.stream, stats, out, part(batch.labels), rows_.begin);
  kernels.copy(context.stream, maximum, stats.slice(0, 0, 1).reshape({chunk.rows}));
  group.all_reduce(maximum, ReduceOp::max, context.stream)->wait(context.stream);
  kernels.softmax_rescale(context.stream, stats, maximum);
  group.all_reduce(stats.slice(0, 1, 2), ReduceOp::sum, context.stream)->wait(context.stream);
  kernels.cross_entropy(context.stream, part(saved.loss), batch.training ? out : View(), out, stats,
                        part(batch.labels), part(batch.mask), batch.grad_scale, rows_.begin);
}

void LmHead::chunk_gradients(Context& context, Saved& saved, const Scratch& scratch,
                             const Chunk& chunk) {
  const View d_logits = scratch.logits.slice(0, 0, chunk.rows);
  const View x = saved.x.slice(0, chunk.begin, chunk.rows);
  const Gradient grad = weight().grad();
  GemmSpec weight_spec;
  weight_spec.transpose_a = true;
  weight_spec.accumulate = grad.accumulate;
  context.kernels.gemm(context.stream, grad.view, ConstView(d_logits), ConstView(x), weight_spec,
                       context.workspace);
  // The input is not needed any more: its gradient takes its place.
  context.kernels.gemm(context.stream, x, ConstView(d_logits), ConstView(weight().value()), {},
                       context.workspace);
  context.mesh.tensor().all_reduce(x, ReduceOp::sum, context.stream)->wait(context.stream);
}

}  // namespace tessera
