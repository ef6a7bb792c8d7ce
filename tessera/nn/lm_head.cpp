#include "tessera/nn/lm_head.h"

#include <algorithm>

#include "tessera/base/check.h"
#include "tessera/nn/token_table.h"

namespace tessera {
namespace {

// A chunk of rows of one part of [parts, rows, C].
template <class V, class Chunk>
V rows_of(const V& parts, int part, const Chunk& chunk) {
  return summa_panel(parts, part).slice(0, chunk.begin, chunk.rows);
}

int count_of(const ConstView& parts) { return static_cast<int>(parts.dim(0)); }

}  // namespace

LmHead::LmHead(const LmHeadSpec& spec, const LayerContext& layer, Parameter* shared)
    : spec_(spec),
      dtype_(layer.dtype),
      rows_(layer),
      layout_(make_lm_head_layout(layer)),
      most_logits_(layer.most_logits),
      largest_shard_(balanced_range(spec.vocab, layer.shards(), 0).length()),
      vocab_(balanced_range(spec.vocab, layer.shards(), layer.shard())),
      shared_(shared) {
  if (shared) return;
  own_ = vocab_parallel_table(spec.tied ? kTokenTableName : kOutputTableName, spec.vocab,
                              spec.hidden, spec.init_std, layer);
  if (spec.tied) own_->tie(true);
}

void LmHead::collect(ParameterList& parameters) {
  if (own_) parameters.push_back(&*own_);
}

// Label smoothing gives every column of the vocabulary the same probability, on all ranks.
TargetSpec LmHead::target(bool training) const {
  const double spread = training ? spec_.label_smoothing : 0.0;
  return {vocab_.begin, 1.0 - spread, spread / static_cast<double>(spec_.vocab)};
}

// Enough rows for an efficient product, and few enough to stay small beside the model. All ranks
// must take the same number, although their shards of the vocabulary may differ in size.
std::int64_t LmHead::chunk_rows(const BatchShape& shape) const {
  const std::int64_t rows = std::max<std::int64_t>(
      64, most_logits_ / std::max<std::int64_t>(1, largest_shard_) / 64 * 64);
  return std::min(shape.rows(), rows);
}

LmHead::Saved LmHead::plan_buffers(ActivationLayout& activations, const BatchShape& shape) const {
  return {activations.until_input.take(dtype_, rows_.local_shape(shape, spec_.hidden)),
          activations.until_input.take(accumulator_type(dtype_), {shape.rows()})};
}

LmHead::Scratch LmHead::plan_scratch(ArenaLayout& scratch, const BatchShape& shape,
                                     bool gradients) const {
  const std::int64_t rows = chunk_rows(shape);
  const DType acc = accumulator_type(dtype_);
  return {layout_->plan_scratch(scratch, shape, weight().shape(), gradients),
          scratch.take(dtype_, {rows, vocab_.length()}), scratch.take(acc, {3, rows}),
          scratch.take(acc, {rows})};
}

void LmHead::logits(Context& context, View out, ConstView x) const {
  check(weight().shape()[1] == spec_.hidden,
        "logits of single rows are not computed with 2-D tensor parallelism");
  const View value = weight().value();
  chunk_logits(context, out, x.reshape({1, x.dim(0), x.dim(1)}),
               value.reshape({1, value.dim(0), value.dim(1)}), {0, x.dim(0)});
}

void LmHead::forward(Context& context, const Microbatch& batch, Saved& saved,
                     const Scratch& scratch) {
  Products products;
  products.x = layout_->gather_input(context, saved.x, scratch.layout);
  products.weight = layout_->gather_weight(context, weight(), scratch.layout);
  if (batch.training && weight().trained())
    products.d_weight = layout_->start_gradient(context, weight(), scratch.layout);
  const std::int64_t rows = products.x.dim(1);
  const std::int64_t step = scratch.maximum.dim(0);
  for (std::int64_t begin = 0; begin < rows; begin += step) {
    const Chunk chunk{begin, std::min(step, rows - begin)};
    chunk_loss(context, batch, products, saved.loss, scratch, chunk);
    if (batch.training) chunk_gradients(context, products, scratch, chunk);
  }
  if (!batch.training) return;
  layout_->sum_input_gradient(context, saved.x, products.x);
  if (weight().trained()) layout_->sum_weight_gradient(context, weight(), products.d_weight);
}

void LmHead::chunk_logits(Context& context, View out, ConstView x, ConstView weight,
                          const Chunk& chunk) const {
  for (int part = 0; part < count_of(x); ++part) {
    GemmSpec spec;
    spec.transpose_b = true;
    spec.accumulate = part > 0;
    context.kernels.gemm(context.stream, out, rows_of(x, part, chunk), summa_panel(weight, part),
                         spec, context.workspace);
  }
  context.kernels.scale_logits(context.stream, out, logit_spec());
}

// Two small reductions over the ranks that share the vocabulary: the maximum, then both sums at
// once.
void LmHead::chunk_loss(Context& context, const Microbatch& batch, const Products& products,
                        View loss, const Scratch& scratch, const Chunk& chunk) const {
  const auto part = [&](const auto& view) { return view.slice(0, chunk.begin, chunk.rows); };
  Kernels& kernels = context.kernels;
  const TargetSpec target = this->target(batch.training);
  Communicator& group = layout_->vocabulary_group(context.mesh);
  const View out = scratch.logits.slice(0, 0, chunk.rows);
  const View stats(scratch.stats.raw(), scratch.stats.dtype(), {3, chunk.rows});
  const View maximum = scratch.maximum.slice(0, 0, chunk.rows);
  chunk_logits(context, out, products.x, products.weight, chunk);
  kernels.softmax_stats(context.stream, stats, out, part(batch.labels), target);
  kernels.copy(context.stream, maximum, stats.slice(0, 0, 1).reshape({chunk.rows}));
  group.all_reduce(maximum, ReduceOp::max, context.stream)->wait(context.stream);
  kernels.softmax_rescale(context.stream, stats, maximum);
  group.all_reduce(stats.slice(0, 1, 2), ReduceOp::sum, context.stream)->wait(context.stream);
  kernels.cross_entropy(context.stream, part(loss), batch.training ? out : View(), out, stats,
                        part(batch.labels), part(batch.mask), batch.grad_scale, target,
                        logit_spec());
}

void LmHead::chunk_gradients(Context& context, const Products& products, const Scratch& scratch,
                             const Chunk& chunk) const {
  const View d_logits = scratch.logits.slice(0, 0, chunk.rows);
  const PartialWeightGradients& d_weight = products.d_weight;
  for (int part = 0; part < count_of(products.x); ++part) {
    const View x = rows_of(products.x, part, chunk);
    if (d_weight.panels) {
      GemmSpec spec;
      spec.transpose_a = true;
      spec.accumulate = chunk.begin > 0 || part == d_weight.begun;
      context.kernels.gemm(context.stream, summa_panel(d_weight.panels, part), ConstView(d_logits),
                           ConstView(x), spec, context.workspace);
    }
    // The input is no longer needed: its gradient replaces it.
    context.kernels.gemm(context.stream, x, ConstView(d_logits), summa_panel(products.weight, part),
                         {}, context.workspace);
  }
}

}  // namespace tessera
