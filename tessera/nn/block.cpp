#include "tessera/nn/block.h"

#include <algorithm>

namespace tessera {

Block::Block(const BlockSpec& spec, const LayerContext& layer, const RopeTable* rope)
    : spec_(spec),
      dtype_(layer.dtype),
      rows_(layer),
      attention_key_(rng_key(layer.seed, RngPurpose::hidden_dropout, spec.attention.name)),
      mlp_key_(rng_key(layer.seed, RngPurpose::hidden_dropout, spec.mlp.name)),
      norm1_(
          make_stream_norm(spec.name + ".attention_norm", spec.attention.hidden, spec.norm, layer)),
      attention_(spec.attention, layer, rope),
      norm2_(make_stream_norm(spec.name + ".mlp_norm", spec.attention.hidden, spec.norm, layer)),
      mlp_(spec.mlp, layer) {}

void Block::collect(ParameterList& parameters) {
  norm1_->collect(parameters);
  attention_.collect(parameters);
  norm2_->collect(parameters);
  mlp_.collect(parameters);
}

void Block::collect_norms(ParameterList& parameters) {
  norm1_->collect(parameters);
  attention_.collect_norms(parameters);
  norm2_->collect(parameters);
}

Block::Saved Block::plan_buffers(ActivationLayout& activations, ArenaLayout& scratch,
                                 const BatchShape& shape) const {
  const Shape rows = rows_.kept(shape, spec_.attention.hidden);
  const Shape stats{rows_.kept(shape), 2};
  const DType acc = accumulator_type(dtype_);
  Saved saved;
  saved.x = activations.until_input.take(dtype_, rows);
  saved.y1 = activations.until_weight.take(dtype_, rows);
  saved.stats1 = activations.until_input.take(acc, stats);
  saved.attention = attention_.plan_buffers(activations, scratch, shape);
  saved.x1 = activations.until_input.take(dtype_, rows);
  saved.y2 = activations.until_weight.take(dtype_, rows);
  saved.stats2 = activations.until_input.take(acc, stats);
  saved.mlp = mlp_.plan_buffers(activations, scratch, shape);
  return saved;
}

Block::Scratch Block::plan_scratch(ArenaLayout& scratch, const BatchShape& shape,
                                   bool gradients) const {
  const Shape rows = rows_.kept(shape, spec_.attention.hidden);
  Scratch views;
  views.branch = scratch.take(dtype_, rows);
  views.linear.all = rows_.plan_buffers(scratch, dtype_, shape, spec_.attention.hidden, gradients);
  views.linear.summa = plan_summa(
      scratch, dtype_, attention_.summa_sizes(shape).or_else(mlp_.summa_sizes(shape)), gradients);
  views.mlp = mlp_.plan_scratch(scratch, shape);
  views.attention = attention_.plan_scratch(scratch, shape, gradients);
  if (!gradients) return views;
  if (spec_.hidden_dropout > 0) views.d_branch = scratch.take(dtype_, rows);
  views.dy = scratch.take(dtype_, rows);
  return views;
}

std::size_t Block::workspace_bytes(const Kernels& kernels, const BatchShape& shape,
                                   std::int64_t keys) const {
  return std::max(attention_.workspace_bytes(kernels, shape, keys),
                  norm1_->workspace_bytes(kernels, shape.rows()));
}

DropoutSpec Block::dropout(const Microbatch& batch, RngKey key) const {
  return {batch.training ? spec_.hidden_dropout : 0.0, key, batch.samples,
          batch.ranges.from(rows_.first_position(batch.shape)),
          rows_.channels(spec_.attention.hidden).begin};
}

void Block::forward(Context& context, const Microbatch& batch, Saved& saved,
                    const Scratch& scratch) const {
  {
    const TraceRange range(context.trace, "attention forward");
    attention_.forward(context, batch, scratch.branch, saved.y1, saved.attention, scratch.attention,
                       scratch.linear);
  }
  norm2_->add_forward(context, saved.y2, saved.x1, saved.stats2, saved.x, scratch.branch,
                      dropout(batch, attention_key_));
  const TraceRange range(context.trace, "mlp forward");
  mlp_.forward(context, scratch.branch, saved.y2, saved.mlp, scratch.mlp, scratch.linear);
}

// Without dropout the gradient of a branch is that of the stream it was added to.
ConstView Block::branch_gradient(Context& context, View dres, const Scratch& scratch,
                                 const DropoutSpec& spec) const {
  if (spec.p <= 0) return dres;
  context.kernels.add_dropout(context.stream, scratch.d_branch, {}, dres, spec);
  return scratch.d_branch;
}

void Block::backward_input(Context& context, const Microbatch& batch, View dres, Saved& saved,
                           const Scratch& scratch, bool weights_too) {
  ConstView d_branch = branch_gradient(context, dres, scratch, mlp_dropout(batch));
  {
    const TraceRange range(context.trace, "mlp backward");
    const WorkHandle sum =
        mlp_.backward_input(context, scratch.dy, d_branch, saved.mlp, scratch.mlp, scratch.linear);
    if (weights_too) mlp_.backward_weight(context, saved.mlp, scratch.linear);
    sum->wait(context.stream);
  }
  norm2_->backward(context, dres, scratch.dy, saved.x1, saved.stats2, true);

  d_branch = branch_gradient(context, dres, scratch, dropout(batch, attention_key_));
  {
    const TraceRange range(context.trace, "attention backward");
    const WorkHandle sum = attention_.backward_input(
        context, batch, scratch.dy, d_branch, saved.attention, scratch.attention, scratch.linear);
    if (weights_too) attention_.backward_weight(context, saved.attention, scratch.linear);
    sum->wait(context.stream);
  }
  norm1_->backward(context, dres, scratch.dy, saved.x, saved.stats1, true);
}

void Block::backward_weight(Context& context, Saved& saved, const Scratch& scratch) {
  mlp_.backward_weight(context, saved.mlp, scratch.linear);
  attention_.backward_weight(context, saved.attention, scratch.linear);
}

}  // namespace tessera
