#include "tessera/nn/embedding.h"

#include <algorithm>

#include "tessera/base/check.h"

namespace tessera {
namespace {

std::optional<Parameter> position_table(const EmbeddingSpec& spec, const LayerContext& layer) {
  if (spec.positions == 0) return std::nullopt;
  const std::string name = "embedding.position.weight";
  const Shape shape{spec.positions, spec.hidden};
  const InitSpec init{InitKind::normal, spec.init_std};
  if (layer.tensor_2d > 0)
    return column_parameter(
        layer.dtype, name, shape,
        balanced_range(spec.hidden, layer.channel_shards(), layer.channel_shard()), init,
        layer.tensor_row());
  const GradientGroup group = layer.sequence_parallel ? GradientGroup::tensor : GradientGroup::none;
  return replicated_parameter(layer.dtype, name, shape, init, layer.tensor_rank,
                              {.gradient_group = group});
}

}  // namespace

Embedding::Embedding(const EmbeddingSpec& spec, const LayerContext& layer)
    : spec_(spec),
      dtype_(layer.dtype),
      rows_(layer),
      dropout_key_(rng_key(layer.seed, RngPurpose::hidden_dropout, "embedding")),
      own_(make_token_table(spec.vocab, spec.hidden, spec.init_std, layer)),
      tokens_(own_.get()),
      positions_(position_table(spec, layer)) {}

Embedding::Embedding(const std::string& name, const EmbeddingSpec& spec, const LayerContext& layer,
                     TokenTable& tokens)
    : spec_(spec),
      dtype_(layer.dtype),
      rows_(layer),
      dropout_key_(rng_key(layer.seed, RngPurpose::hidden_dropout, name)),
      tokens_(&tokens) {
  check(spec.positions == 0, "'{}' has learned positions, which are not shared", name);
}

void Embedding::collect(ParameterList& parameters) {
  if (own_) parameters.push_back(&own_->parameter());
  if (positions_) parameters.push_back(&*positions_);
}

Embedding::Scratch Embedding::plan_scratch(ArenaLayout& scratch, const BatchShape& shape,
                                           bool gradients) const {
  Scratch views;
  views.tokens = tokens_->plan_scratch(scratch, shape);
  if (gradients && (spec_.dropout > 0 || spec_.scale != 1))
    views.dropped = scratch.take(dtype_, rows_.local_shape(shape, spec_.hidden));
  return views;
}

std::size_t Embedding::workspace_bytes(const Kernels& kernels, const BatchShape& shape) const {
  return std::max(tokens_->workspace_bytes(kernels, shape),
                  kernels.embedding_workspace_bytes(rows_.local_rows(shape)));
}

DropoutSpec Embedding::dropout(const Microbatch& batch) const {
  return {batch.training ? spec_.dropout : 0.0,
          dropout_key_,
          batch.samples,
          batch.ranges.from(rows_.first_position(batch.shape)),
          rows_.channels(spec_.hidden).begin,
          spec_.scale};
}

ConstView Embedding::positions_of(const Microbatch& batch) const {
  return rows_.local_rows(batch.positions.reshape({batch.shape.rows()}));
}

void Embedding::forward(Context& context, const Microbatch& batch, View y,
                        const Scratch& scratch) const {
  Kernels& kernels = context.kernels;
  tokens_->forward(context, batch, y, scratch.tokens);
  if (positions_)
    kernels.embedding_forward(context.stream, y, positions_of(batch), positions_->value(), 0, true);
  const DropoutSpec spec = dropout(batch);
  if (!spec.is_identity()) kernels.add_dropout(context.stream, y, {}, y, spec);
}

Embedding::Pending Embedding::start_backward(Context& context, const Microbatch& batch,
                                             ConstView dy, const Scratch& scratch) {
  Kernels& kernels = context.kernels;
  const DropoutSpec spec = dropout(batch);
  if (!spec.is_identity()) {
    kernels.add_dropout(context.stream, scratch.dropped, {}, dy, spec);
    dy = scratch.dropped;
  }
  const bool tokens = tokens_->parameter().trained();
  WorkHandle gather = tokens ? tokens_->gather(context, dy, scratch.tokens) : nullptr;
  if (positions_ && positions_->trained()) {
    const Gradient positions = positions_->grad();
    kernels.embedding_backward(context.stream, positions.view, dy, positions_of(batch), 0,
                               positions.accumulate, context.workspace);
  }
  return {dy, std::move(gather)};
}

void Embedding::finish_backward(Context& context, const Microbatch& batch, const Pending& pending,
                                const Scratch& scratch) {
  if (!pending.gather) return;
  pending.gather->wait(context.stream);
  tokens_->backward(context, batch, pending.dy, scratch.tokens);
}

}  // namespace tessera
