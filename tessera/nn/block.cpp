#include "tessera/nn/block.h"

#include <algorithm>
#include <utility>

#include "tessera/nn/attention.h"
#include "tessera/nn/latent/latent_attention.h"
#include "tessera/nn/mlp.h"
#include "tessera/nn/moe/moe.h"

namespace tessera {
namespace {

struct MakeMixer {
  const LayerContext& layer;
  RopeTables& rope;

  std::unique_ptr<Sublayer> operator()(const AttentionLayerSpec& spec) const {
    return std::make_unique<Attention>(
        spec, layer, spec.rope ? rope.get(spec.rope) : rope.get(spec.temperature));
  }
  std::unique_ptr<Sublayer> operator()(const LatentAttentionSpec& spec) const {
    return std::make_unique<LatentAttention>(spec, layer, rope.get(spec.rope));
  }
};

struct MakeFeedForward {
  const LayerContext& layer;

  std::unique_ptr<Sublayer> operator()(const MlpSpec& spec) const {
    return std::make_unique<Mlp>(spec, layer);
  }
  std::unique_ptr<Sublayer> operator()(const MoeSpec& spec) const {
    return std::make_unique<Moe>(spec, layer);
  }
};

RngKey dropout_key(std::uint64_t seed, const auto& sublayer) {
  const std::string& name =
      std::visit([](const auto& spec) -> const std::string& { return spec.name; }, sublayer);
  return rng_key(seed, RngPurpose::hidden_dropout, name);
}

std::unique_ptr<Norm> make_norm(const std::optional<std::string>& name, const LayerSpec& spec,
                                const LayerContext& layer) {
  return name ? make_stream_norm(*name, spec.hidden, spec.norm, layer) : nullptr;
}

}  // namespace

Block::Block(const LayerSpec& spec, const LayerContext& layer, RopeTables& rope)
    : Block(spec, layer, std::visit(MakeMixer{layer, rope}, spec.mixer),
            std::visit(MakeFeedForward{layer}, spec.feed_forward)) {}

Block::Block(const LayerSpec& spec, const LayerContext& layer, std::unique_ptr<Sublayer> mixer,
             std::unique_ptr<Sublayer> feed_forward)
    : spec_(spec), dtype_(layer.dtype), rows_(layer) {
  const LayerNorms norms = layer_norms(spec);
  mixer_ = {dropout_key(layer.seed, spec.mixer), make_norm(norms.mixer, spec, layer),
            std::move(mixer), make_norm(norms.mixer_output, spec, layer)};
  feed_forward_ = {dropout_key(layer.seed, spec.feed_forward),
                   make_norm(norms.feed_forward, spec, layer), std::move(feed_forward),
                   make_norm(norms.feed_forward_output, spec, layer)};
}

void Block::collect(ParameterList& parameters) {
  for (SublayerWithNorms* wrapped : {&mixer_, &feed_forward_}) {
    if (wrapped->before) wrapped->before->collect(parameters);
    wrapped->sublayer->collect(parameters);
    if (wrapped->after) wrapped->after->collect(parameters);
  }
}

void Block::collect_norms(ParameterList& parameters) {
  for (SublayerWithNorms* wrapped : {&mixer_, &feed_forward_}) {
    if (wrapped->before) wrapped->before->collect(parameters);
    wrapped->sublayer->collect_norms(parameters);
    if (wrapped->after) wrapped->after->collect(parameters);
  }
}

void Block::collect_losses(ExtraLossList& losses) {
  mixer_.sublayer->collect_losses(losses);
  feed_forward_.sublayer->collect_losses(losses);
}

void Block::collect_loads(ExpertLoadList& loads) {
  mixer_.sublayer->collect_loads(loads);
  feed_forward_.sublayer->collect_loads(loads);
}

// ---- memory

void Block::plan_branch(const SublayerWithNorms& wrapped, Branch& branch,
                        ActivationLayout& activations, const BatchShape& shape) const {
  if (!wrapped.before) return;
  branch.y = activations.until_weight.take(dtype_, rows_.local_shape(shape, spec_.hidden));
  branch.stats =
      activations.until_input.take(accumulator_type(dtype_), {rows_.local_rows(shape), 2});
}

Block::Saved Block::plan_buffers(ActivationLayout& activations, ArenaLayout& scratch,
                                 const BatchShape& shape) const {
  const Shape rows = rows_.local_shape(shape, spec_.hidden);
  const bool gradients = activations.gradients;
  Saved saved;
  saved.linear.all = rows_.plan_buffers(scratch, dtype_, shape, spec_.hidden, gradients);
  saved.linear.summa = plan_summa(
      scratch, dtype_,
      mixer_.sublayer->summa_sizes(shape).or_else(feed_forward_.sublayer->summa_sizes(shape)),
      gradients);
  const bool own_gradient = spec_.hidden_dropout > 0 || spec_.residual_scale != 1 || mixer_.after;
  if (gradients && own_gradient) saved.d_branch = scratch.take(dtype_, rows);
  if (gradients) saved.dy = scratch.take(dtype_, rows);
  if (gradients && !keeps_x1()) saved.mixer_dy = scratch.take(dtype_, rows);
  if (!keeps_x1()) saved.x1 = scratch.take(dtype_, rows);
  // Only one sublayer runs at a time, so they share scratch memory.
  ArenaLayout mixer_scratch = scratch, feed_forward_scratch = scratch;
  const auto take_stream = [&](const SublayerWithNorms& reader) {
    return (reader.before ? activations.until_input : activations.until_weight).take(dtype_, rows);
  };
  const auto take_output = [&](const SublayerWithNorms& wrapped, Branch& branch) {
    if (!wrapped.after) return;
    branch.raw = activations.until_input.take(dtype_, rows);
    branch.raw_stats =
        activations.until_input.take(accumulator_type(dtype_), {rows_.local_rows(shape), 2});
  };
  saved.x = take_stream(mixer_);
  plan_branch(mixer_, saved.mixer, activations, shape);
  saved.mixer.sublayer = mixer_.sublayer->plan_buffers(activations, mixer_scratch, shape);
  take_output(mixer_, saved.mixer);
  if (keeps_x1()) saved.x1 = take_stream(feed_forward_);
  plan_branch(feed_forward_, saved.feed_forward, activations, shape);
  saved.feed_forward.sublayer =
      feed_forward_.sublayer->plan_buffers(activations, feed_forward_scratch, shape);
  take_output(feed_forward_, saved.feed_forward);
  scratch.include(mixer_scratch);
  scratch.include(feed_forward_scratch);
  return saved;
}

std::size_t Block::workspace_bytes(const Kernels& kernels, const BatchShape& shape,
                                   std::int64_t keys) const {
  std::size_t bytes = 0;
  for (const SublayerWithNorms* wrapped : {&mixer_, &feed_forward_}) {
    bytes = std::max(bytes, wrapped->sublayer->workspace_bytes(kernels, shape, keys));
    for (const Norm* norm : {wrapped->before.get(), wrapped->after.get()})
      if (norm) bytes = std::max(bytes, norm->workspace_bytes(kernels, shape.rows()));
  }
  return bytes;
}

// ---- forward

DropoutSpec Block::dropout(const Microbatch& batch, const SublayerWithNorms& wrapped) const {
  return {batch.training ? spec_.hidden_dropout : 0.0,
          wrapped.dropout_key,
          batch.samples,
          batch.ranges.from(rows_.first_position(batch.shape)),
          rows_.channels(spec_.hidden).begin,
          spec_.residual_scale};
}

void Block::start_first(Context& context, Saved& saved) const {
  if (mixer_.before) mixer_.before->forward(context, saved.mixer.y, saved.mixer.stats, saved.x);
}

void Block::add_and_start(Context& context, Saved& saved, ConstView x1, ConstView branch,
                          const DropoutSpec& dropout) const {
  add_and_norm(context, mixer_, saved.mixer, saved.x, x1, branch, dropout);
}

// r = x + dropout(branch), fused with the norm if the sublayer begins with one.
void Block::add_and_norm(Context& context, const SublayerWithNorms& wrapped, const Branch& saved,
                         View r, ConstView x, ConstView branch, const DropoutSpec& dropout) const {
  if (wrapped.before)
    wrapped.before->add_forward(context, saved.y, r, saved.stats, x, branch, dropout);
  else
    context.kernels.add_dropout(context.stream, r, x, branch, dropout);
}

void Block::run(Context& context, const Microbatch& batch, const SublayerWithNorms& wrapped,
                Branch& saved, View branch, ConstView x, const LinearScratch& linear) const {
  const View out = wrapped.after ? saved.raw : branch;
  wrapped.sublayer->forward(context, batch, out, x, *saved.sublayer, linear);
  if (wrapped.after) wrapped.after->forward(context, branch, saved.raw_stats, saved.raw);
}

ConstView Block::feed_forward_input(const Saved& saved) const {
  if (feed_forward_.before) return saved.feed_forward.y;
  switch (spec_.parallel) {
    case ParallelBlock::none: return saved.x1;
    case ParallelBlock::one_norm: return saved.mixer.y;
    case ParallelBlock::two_norms: return saved.x;
  }
  return {};
}

void Block::forward(Context& context, const Microbatch& batch, View branch, Saved& saved) const {
  {
    const TraceRange range(context.trace, "attention forward");
    run(context, batch, mixer_, saved.mixer, branch, mixer_.before ? saved.mixer.y : saved.x,
        saved.linear);
  }
  const DropoutSpec mixer_dropout = dropout(batch, mixer_);
  if (spec_.parallel == ParallelBlock::none) {
    add_and_norm(context, feed_forward_, saved.feed_forward, saved.x1, saved.x, branch,
                 mixer_dropout);
  } else {
    context.kernels.add_dropout(context.stream, saved.x1, saved.x, branch, mixer_dropout);
    if (feed_forward_.before)
      feed_forward_.before->forward(context, saved.feed_forward.y, saved.feed_forward.stats,
                                    saved.x);
  }
  const TraceRange range(context.trace, "mlp forward");
  run(context, batch, feed_forward_, saved.feed_forward, branch, feed_forward_input(saved),
      saved.linear);
}

// ---- backward

// dx: the gradient of the sublayer's input. Without dropout, scale and norm, the gradient of a
// branch is that of the residual stream.
void Block::run_backward(Context& context, const Microbatch& batch, SublayerWithNorms& wrapped,
                         Branch& branch, View dx, ConstView dres, const Saved& saved,
                         bool weights_too) {
  ConstView dy = dres;
  const DropoutSpec spec = dropout(batch, wrapped);
  if (!spec.is_identity()) {
    context.kernels.add_dropout(context.stream, saved.d_branch, {}, dres, spec);
    dy = saved.d_branch;
  }
  if (wrapped.after) {
    wrapped.after->backward(context, saved.d_branch, dy, branch.raw, branch.raw_stats, false);
    dy = saved.d_branch;
  }
  const WorkHandle sum =
      wrapped.sublayer->backward_input(context, batch, dx, dy, *branch.sublayer, saved.linear);
  if (weights_too) wrapped.sublayer->backward_weight(context, *branch.sublayer, saved.linear);
  sum->wait(context.stream);
}

// dres += the gradient of x, after backward through the norm before the sublayer.
void Block::norm_backward_and_add(Context& context, SublayerWithNorms& wrapped, const Branch& saved,
                                  View dres, ConstView dy, ConstView x) {
  if (wrapped.before)
    wrapped.before->backward(context, dres, dy, x, saved.stats, true);
  else
    context.kernels.add_dropout(context.stream, dres, dres, dy, {});
}

// Both branches start from x, so neither may add to dres before the other has read it.
void Block::parallel_norm_backward(Context& context, View dres, const Saved& saved) {
  if (spec_.parallel == ParallelBlock::one_norm)
    context.kernels.add_dropout(context.stream, saved.mixer_dy, saved.mixer_dy, saved.dy, {});
  else
    norm_backward_and_add(context, feed_forward_, saved.feed_forward, dres, saved.dy, saved.x);
  norm_backward_and_add(context, mixer_, saved.mixer, dres, saved.mixer_dy, saved.x);
}

void Block::backward_input(Context& context, const Microbatch& batch, View dres, Saved& saved,
                           bool weights_too) {
  const bool parallel = spec_.parallel != ParallelBlock::none;
  {
    const TraceRange range(context.trace, "mlp backward");
    run_backward(context, batch, feed_forward_, saved.feed_forward, saved.dy, dres, saved,
                 weights_too);
  }
  if (!parallel)
    norm_backward_and_add(context, feed_forward_, saved.feed_forward, dres, saved.dy, saved.x1);
  {
    const TraceRange range(context.trace, "attention backward");
    run_backward(context, batch, mixer_, saved.mixer, parallel ? saved.mixer_dy : saved.dy, dres,
                 saved, weights_too);
  }
  if (parallel)
    parallel_norm_backward(context, dres, saved);
  else
    norm_backward_and_add(context, mixer_, saved.mixer, dres, saved.dy, saved.x);
}

void Block::backward_weight(Context& context, Saved& saved) {
  feed_forward_.sublayer->backward_weight(context, *saved.feed_forward.sublayer, saved.linear);
  mixer_.sublayer->backward_weight(context, *saved.mixer.sublayer, saved.linear);
}

}  // namespace tessera
