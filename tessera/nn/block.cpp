#include "tessera/nn/block.h"

#include <algorithm>
#include <utility>

#include "tessera/nn/attention.h"
#include "tessera/nn/mlp.h"

namespace tessera {
namespace {

struct MakeMixer {
  const LayerContext& layer;
  RopeTables& rope;

  std::unique_ptr<Sublayer> operator()(const AttentionLayerSpec& spec) const {
    return std::make_unique<Attention>(spec, layer, rope.get(spec.rope));
  }
};

struct MakeFeedForward {
  const LayerContext& layer;

  std::unique_ptr<Sublayer> operator()(const MlpSpec& spec) const {
    return std::make_unique<Mlp>(spec, layer);
  }
};

RngKey dropout_key(std::uint64_t seed, const auto& sublayer) {
  const std::string& name =
      std::visit([](const auto& spec) -> const std::string& { return spec.name; }, sublayer);
  return rng_key(seed, RngPurpose::hidden_dropout, name);
}

}  // namespace

Block::Block(const LayerSpec& spec, const LayerContext& layer, RopeTables& rope)
    : Block(spec, layer, std::visit(MakeMixer{layer, rope}, spec.mixer),
            std::visit(MakeFeedForward{layer}, spec.feed_forward)) {}

Block::Block(const LayerSpec& spec, const LayerContext& layer, std::unique_ptr<Sublayer> mixer,
             std::unique_ptr<Sublayer> feed_forward)
    : spec_(spec),
      dtype_(layer.dtype),
      rows_(layer),
      mixer_key_(dropout_key(layer.seed, spec.mixer)),
      feed_forward_key_(dropout_key(layer.seed, spec.feed_forward)),
      norm1_(make_stream_norm(spec.name + ".attention_norm", spec.hidden, spec.norm, layer)),
      mixer_(std::move(mixer)),
      norm2_(make_stream_norm(spec.name + ".mlp_norm", spec.hidden, spec.norm, layer)),
      feed_forward_(std::move(feed_forward)) {}

void Block::collect(ParameterList& parameters) {
  norm1_->collect(parameters);
  mixer_->collect(parameters);
  norm2_->collect(parameters);
  feed_forward_->collect(parameters);
}

void Block::collect_norms(ParameterList& parameters) {
  norm1_->collect(parameters);
  mixer_->collect_norms(parameters);
  norm2_->collect(parameters);
  feed_forward_->collect_norms(parameters);
}

void Block::collect_losses(ExtraLossList& losses) {
  mixer_->collect_losses(losses);
  feed_forward_->collect_losses(losses);
}

Block::Saved Block::plan_buffers(ActivationLayout& activations, ArenaLayout& scratch,
                                 const BatchShape& shape) const {
  const Shape rows = rows_.kept(shape, spec_.hidden);
  const Shape stats{rows_.kept(shape), 2};
  const DType acc = accumulator_type(dtype_);
  const bool gradients = activations.gradients;
  Saved saved;
  saved.linear.all = rows_.plan_buffers(scratch, dtype_, shape, spec_.hidden, gradients);
  saved.linear.summa =
      plan_summa(scratch, dtype_,
                 mixer_->summa_sizes(shape).or_else(feed_forward_->summa_sizes(shape)), gradients);
  if (gradients && spec_.hidden_dropout > 0) saved.d_branch = scratch.take(dtype_, rows);
  if (gradients) saved.dy = scratch.take(dtype_, rows);
  // One sublayer runs at a time, so their scratch lies at the same place.
  ArenaLayout mixer_scratch = scratch, feed_forward_scratch = scratch;

  saved.x = activations.until_input.take(dtype_, rows);
  saved.y1 = activations.until_weight.take(dtype_, rows);
  saved.stats1 = activations.until_input.take(acc, stats);
  saved.mixer = mixer_->plan_buffers(activations, mixer_scratch, shape);
  saved.x1 = activations.until_input.take(dtype_, rows);
  saved.y2 = activations.until_weight.take(dtype_, rows);
  saved.stats2 = activations.until_input.take(acc, stats);
  saved.feed_forward = feed_forward_->plan_buffers(activations, feed_forward_scratch, shape);
  scratch.include(mixer_scratch);
  scratch.include(feed_forward_scratch);
  return saved;
}

std::size_t Block::workspace_bytes(const Kernels& kernels, const BatchShape& shape,
                                   std::int64_t keys) const {
  return std::max({mixer_->workspace_bytes(kernels, shape, keys),
                   feed_forward_->workspace_bytes(kernels, shape, keys),
                   norm1_->workspace_bytes(kernels, shape.rows())});
}

DropoutSpec Block::dropout(const Microbatch& batch, RngKey key) const {
  return {batch.training ? spec_.hidden_dropout : 0.0, key, batch.samples,
          batch.ranges.from(rows_.first_position(batch.shape)), rows_.channels(spec_.hidden).begin};
}

void Block::start(Context& context, Saved& saved) const {
  norm1_->forward(context, saved.y1, saved.stats1, saved.x);
}

void Block::start_behind(Context& context, Saved& saved, ConstView x1, ConstView branch,
                         const DropoutSpec& dropout) const {
  norm1_->add_forward(context, saved.y1, saved.x, saved.stats1, x1, branch, dropout);
}

void Block::forward(Context& context, const Microbatch& batch, View branch, Saved& saved) const {
  {
    const TraceRange range(context.trace, "attention forward");
    mixer_->forward(context, batch, branch, saved.y1, *saved.mixer, saved.linear);
  }
  norm2_->add_forward(context, saved.y2, saved.x1, saved.stats2, saved.x, branch,
                      dropout(batch, mixer_key_));
  const TraceRange range(context.trace, "mlp forward");
  feed_forward_->forward(context, batch, branch, saved.y2, *saved.feed_forward, saved.linear);
}

// Without dropout the gradient of a branch is that of the stream it was added to.
ConstView Block::branch_gradient(Context& context, View dres, const Saved& saved,
                                 const DropoutSpec& spec) const {
  if (spec.p <= 0) return dres;
  context.kernels.add_dropout(context.stream, saved.d_branch, {}, dres, spec);
  return saved.d_branch;
}

void Block::backward_input(Context& context, const Microbatch& batch, View dres, Saved& saved,
                           bool weights_too) {
  ConstView d_branch = branch_gradient(context, dres, saved, branch_dropout(batch));
  {
    const TraceRange range(context.trace, "mlp backward");
    const WorkHandle sum = feed_forward_->backward_input(context, batch, saved.dy, d_branch,
                                                         *saved.feed_forward, saved.linear);
    if (weights_too) feed_forward_->backward_weight(context, *saved.feed_forward, saved.linear);
    sum->wait(context.stream);
  }
  norm2_->backward(context, dres, saved.dy, saved.x1, saved.stats2, true);

  d_branch = branch_gradient(context, dres, saved, dropout(batch, mixer_key_));
  {
    const TraceRange range(context.trace, "attention backward");
    const WorkHandle sum =
        mixer_->backward_input(context, batch, saved.dy, d_branch, *saved.mixer, saved.linear);
    if (weights_too) mixer_->backward_weight(context, *saved.mixer, saved.linear);
    sum->wait(context.stream);
  }
  norm1_->backward(context, dres, saved.dy, saved.x, saved.stats1, true);
}

void Block::backward_weight(Context& context, Saved& saved) {
  feed_forward_->backward_weight(context, *saved.feed_forward, saved.linear);
  mixer_->backward_weight(context, *saved.mixer, saved.linear);
}

}  // namespace tessera
