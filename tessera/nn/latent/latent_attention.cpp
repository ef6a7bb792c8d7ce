#include "tessera/nn/latent/latent_attention.h"

#include <algorithm>

#include "tessera/base/check.h"

namespace tessera {
namespace {

// Rows [S B, heads x size] as [S, B, heads, size].
View by_heads(const View& rows, const BatchShape& shape, std::int64_t size) {
  return rows.reshape({shape.seq, shape.batch, rows.dim(1) / size, size});
}

// The same as [N, heads, size].
View by_rows(const View& rows, std::int64_t size) {
  return rows.split_last({rows.dim(1) / size, size});
}

// A row for every head, all in the same memory.
ConstView for_all_heads(const View& rows, std::int64_t heads) {
  return {rows.raw(), rows.dtype(), {rows.dim(0), heads, rows.dim(1)}, {rows.stride(0), 0, 1}};
}

}  // namespace

LatentAttention::LatentAttention(const LatentAttentionSpec& spec, const LayerContext& layer,
                                 const RopeTable* rope)
    : spec_(spec),
      recompute_(layer.recompute_core_attention),
      dtype_(layer.dtype),
      rows_(layer),
      heads_(spec.heads / layer.tensor_size),
      rope_(rope),
      cached_(spec, heads_, layer.dtype),
      down_(latent_linear(spec), layer),
      q_up_(make_first_linear(query_linear(spec), layer)),
      kv_norm_(make_stream_norm(spec.name + ".kv_norm", spec.kv_rank, spec.norm, layer)),
      kv_up_(make_first_linear(key_value_linear(spec), layer)),
      out_(make_last_linear(output_linear(spec), layer)) {
  check(layer.tensor_2d == 0, "latent attention needs 1-D tensor parallelism");
  check(spec.heads % layer.tensor_size == 0, "{} heads cannot be shared evenly by {} ranks",
        spec.heads, layer.tensor_size);
  core_ = make_core_attention(
      {.dtype = dtype_,
       .layer = spec.layer,
       .heads = heads_,
       .groups = heads_,
       .head_size = spec.head_size(),
       .value_size = spec.value_size,
       .softmax_scale = spec.softmax_scale,
       .softcap = spec.softcap,
       .causal = true,
       .window = spec.window,
       .dropout = spec.dropout,
       .dropout_key = rng_key(layer.seed, RngPurpose::attention_dropout, spec.name),
       .first_head = heads_ * layer.tensor_rank,
       .recompute = recompute_},
      layer);
  if (spec.q_rank > 0)
    q_norm_ = make_stream_norm(spec.name + ".q_norm", spec.q_rank, spec.norm, layer);
}

// In the order of the parameter table.
void LatentAttention::collect(ParameterList& parameters) {
  down_.collect(parameters);
  if (q_norm_) q_norm_->collect(parameters);
  q_up_->collect(parameters);
  kv_norm_->collect(parameters);
  kv_up_->collect(parameters);
  out_->collect(parameters);
}

void LatentAttention::collect_norms(ParameterList& parameters) {
  if (q_norm_) q_norm_->collect(parameters);
  kv_norm_->collect(parameters);
}

// ---- memory

LatentAttention::Latent LatentAttention::plan_latent(ActivationLayout& activations,
                                                     ArenaLayout& scratch, const BatchShape& shape,
                                                     std::int64_t width) const {
  const Shape rows{rows_.local_rows(shape), width};
  Latent latent;
  latent.normed = activations.until_weight.take(dtype_, rows);
  latent.stats = activations.until_input.take(accumulator_type(dtype_), {rows[0], 2});
  if (activations.gradients) latent.d_normed = scratch.take(dtype_, rows);
  latent.all = rows_.plan_buffer(scratch, dtype_, shape, width);
  return latent;
}

void LatentAttention::plan_heads(ActivationLayout& activations, ArenaLayout& scratch,
                                 const BatchShape& shape, Saved& saved) const {
  const std::int64_t n = shape.rows(), size = spec_.head_size();
  const Shape queries{n, heads_ * size},
      keys_values{n, heads_ * (spec_.plain_size + spec_.value_size)};
  const Shape outputs{n, heads_ * spec_.value_size};
  ArenaLayout& kept = recompute_ ? scratch : activations.until_input;
  saved.key = kept.take(dtype_, {n, spec_.rotary_size});
  saved.q = kept.take(dtype_, queries);
  saved.kv = kept.take(dtype_, keys_values);
  // A split backward reads the output later, when scratch has been overwritten.
  const bool in_scratch = recompute_ && !activations.split_backward;
  saved.out = (in_scratch ? scratch : activations.until_weight).take(dtype_, outputs);
  saved.core = core_->plan_buffers(activations, scratch, shape);
  saved.k = scratch.take(dtype_, queries);
  if (!activations.gradients && shape.seq == 1) saved.absorbed = cached_.plan_scratch(scratch, n);
  saved.d_q = activations.gradient(scratch, dtype_, queries);
  saved.d_kv = activations.gradient(scratch, dtype_, keys_values);
  if (!activations.gradients) return;
  saved.d_k = scratch.take(dtype_, queries);
  saved.d_out = scratch.take(dtype_, outputs);
}

std::unique_ptr<Sublayer::Saved> LatentAttention::plan_buffers(ActivationLayout& activations,
                                                               ArenaLayout& scratch,
                                                               const BatchShape& shape) const {
  const std::int64_t own = rows_.local_rows(shape);
  auto planned = std::make_unique<Saved>();
  Saved& saved = *planned;
  saved.down = activations.until_input.take(dtype_, {own, spec_.latent_width()});
  saved.d_down = activations.gradient(scratch, dtype_, {own, spec_.latent_width()});
  if (q_norm_) saved.q_latent = plan_latent(activations, scratch, shape, spec_.q_rank);
  saved.kv_latent = plan_latent(activations, scratch, shape, spec_.kv_rank);
  saved.own_key = scratch.take(dtype_, {own, spec_.rotary_size});
  saved.all_key = rows_.plan_buffer(scratch, dtype_, shape, spec_.rotary_size);
  plan_heads(activations, scratch, shape, saved);
  saved.rows = SublayerRows(activations, rows_, dtype_, shape, spec_.hidden);
  return planned;
}

KvCache::Layer LatentAttention::plan_cache(ArenaLayout& memory, const BatchShape& capacity) const {
  const std::int64_t width = spec_.kv_rank + spec_.rotary_size;
  return {memory.take(dtype_, {capacity.seq, capacity.batch, 1, width}), {}};
}

std::size_t LatentAttention::workspace_bytes(const Kernels& kernels, const BatchShape& shape,
                                             std::int64_t keys) const {
  const std::int64_t rows = rows_.local_rows(shape);
  std::size_t bytes = core_->workspace_bytes(kernels, shape, keys, AttentionGradients::written);
  if (shape.seq == 1) bytes = std::max(bytes, cached_.workspace_bytes(keys));
  for (const Norm* norm : {q_norm_.get(), kv_norm_.get()})
    if (norm) bytes = std::max(bytes, norm->workspace_bytes(kernels, rows));
  return bytes;
}

// ---- views

View LatentAttention::q_part(const View& down) const { return down.slice(1, 0, spec_.q_rank); }
View LatentAttention::kv_part(const View& down) const {
  return down.slice(1, spec_.q_rank, spec_.kv_rank);
}
View LatentAttention::key_part(const View& down) const {
  return down.slice(1, spec_.q_rank + spec_.kv_rank, spec_.rotary_size);
}

// The values among rows [N, H (P + E)].
View LatentAttention::values(const View& kv, const BatchShape& shape) const {
  return by_heads(kv, shape, spec_.plain_size + spec_.value_size)
      .slice(3, spec_.plain_size, spec_.value_size);
}

CoreAttention::Heads LatentAttention::core_heads(const Saved& saved,
                                                 const BatchShape& shape) const {
  const std::int64_t size = spec_.head_size();
  return {by_heads(saved.q, shape, size), by_heads(saved.k, shape, size), values(saved.kv, shape)};
}

View LatentAttention::cache_of(const Microbatch& batch) const {
  return batch.cache->layers.at(static_cast<std::size_t>(spec_.layer)).k;
}

// All rows of a latent, for the weight gradient.
ConstView LatentAttention::gathered(Context& context, const Latent& latent) const {
  return rows_.gather_now(context, latent.all, latent.normed);
}

// The rotary channels of heads [N, heads D].
View LatentAttention::rotary(const View& rows, const BatchShape& shape) const {
  return by_heads(rows, shape, spec_.head_size()).slice(3, spec_.plain_size, spec_.rotary_size);
}

// ---- forward

// heads [S, B, heads, R], in place.
void LatentAttention::rotate(Context& context, const Microbatch& batch, const View& heads,
                             bool inverse) const {
  if (!rope_) return;
  const RopePairs pairs = spec_.rope->interleaved ? RopePairs::interleaved : RopePairs::halves;
  context.kernels.rope(context.stream, heads, rope_->cos(), rope_->sin(), batch.positions, inverse,
                       pairs);
}

// The latents and the key of this rank's rows.
void LatentAttention::compute_latents(Context& context, ConstView x, const Saved& saved,
                                      const LinearScratch& linear) const {
  down_.forward(context, saved.down, x, linear);
  if (q_norm_)
    q_norm_->forward(context, saved.q_latent.normed, saved.q_latent.stats, q_part(saved.down));
  kv_norm_->forward(context, saved.kv_latent.normed, saved.kv_latent.stats, kv_part(saved.down));
}

// The rotated key of all rows.
void LatentAttention::compute_key(Context& context, const Microbatch& batch,
                                  const Saved& saved) const {
  context.kernels.copy(context.stream, saved.own_key, key_part(saved.down));
  context.kernels.copy(context.stream, saved.key,
                       rows_.gather_now(context, saved.all_key, saved.own_key));
  rotate(context, batch, by_heads(saved.key, batch.shape, spec_.rotary_size), false);
}

void LatentAttention::compute_queries(Context& context, const Microbatch& batch, ConstView x,
                                      const Saved& saved, const LinearScratch& linear) const {
  if (q_norm_)
    q_up_->forward(context, saved.q, saved.q_latent.normed, saved.q_latent.scratch());
  else
    q_up_->forward(context, saved.q, x, linear);
  rotate(context, batch, rotary(saved.q, batch.shape), false);
}

// k = plain key | rotated key, for each head.
void LatentAttention::assemble_keys(Context& context, const Saved& saved) const {
  const View k = by_rows(saved.k, spec_.head_size());
  const View kv = by_rows(saved.kv, spec_.plain_size + spec_.value_size);
  context.kernels.copy(context.stream, k.slice(2, 0, spec_.plain_size),
                       kv.slice(2, 0, spec_.plain_size));
  context.kernels.copy(context.stream, k.slice(2, spec_.plain_size, spec_.rotary_size),
                       for_all_heads(saved.key, heads_));
}

void LatentAttention::append_to_cache(Context& context, const Microbatch& batch,
                                      const Saved& saved) const {
  check(context.mesh.context().size() == 1 && !saved.all_key,
        "latents are cached without sequence and context parallelism");
  const BatchShape& shape = batch.shape;
  const View rows = cache_of(batch).slice(0, batch.ranges.at(0), shape.seq);
  context.kernels.copy(context.stream, rows.slice(3, 0, spec_.kv_rank),
                       by_heads(saved.kv_latent.normed, shape, spec_.kv_rank));
  context.kernels.copy(context.stream, rows.slice(3, spec_.kv_rank, spec_.rotary_size),
                       by_heads(saved.key, shape, spec_.rotary_size));
}

void LatentAttention::core_forward(Context& context, const Microbatch& batch, ConstView x,
                                   Saved& saved, const LinearScratch& linear) const {
  compute_queries(context, batch, x, saved, linear);
  compute_key(context, batch, saved);
  if (batch.cache) append_to_cache(context, batch, saved);
  if (batch.cache && saved.absorbed)
    return cached_.forward(context, batch, saved.out, saved.absorbed, saved.q, kv_up_->weight(),
                           cache_of(batch));
  check(!batch.cache || batch.ranges.at(0) == 0,
        "a microbatch with cached latents is a prompt from its first position, or one position");
  Microbatch alone = batch;
  alone.cache = nullptr;
  kv_up_->forward(context, saved.kv, saved.kv_latent.normed, saved.kv_latent.scratch());
  assemble_keys(context, saved);
  core_->forward(context, alone, by_heads(saved.out, batch.shape, spec_.value_size),
                 core_heads(saved, batch.shape), *saved.core);
}

void LatentAttention::forward(Context& context, const Microbatch& batch, View y, ConstView x,
                              Sublayer::Saved& state, const LinearScratch& linear) const {
  auto& saved = static_cast<Saved&>(state);
  saved.rows.set_input(x);
  compute_latents(context, x, saved, linear);
  core_forward(context, batch, x, saved, linear);
  out_->forward(context, y, saved.out, linear);
}

// ---- backward

// Gradients of q, k and of values, those in d_kv.
void LatentAttention::backward_core(Context& context, const Microbatch& batch, Saved& saved) const {
  const BatchShape& shape = batch.shape;
  const std::int64_t size = spec_.head_size();
  core_->backward(context, batch,
                  {by_heads(saved.d_q, shape, size), by_heads(saved.d_k, shape, size),
                   values(saved.d_kv, shape)},
                  by_heads(saved.d_out, shape, spec_.value_size), core_heads(saved, shape),
                  by_heads(saved.out, shape, spec_.value_size), *saved.core);
  rotate(context, batch, rotary(saved.d_q, shape), true);
}

// From d_k to the plain keys in d_kv and to the shared key in d_down.
void LatentAttention::backward_keys(Context& context, const Microbatch& batch,
                                    const Saved& saved) const {
  const View d_k = by_rows(saved.d_k, spec_.head_size());
  const View d_kv = by_rows(saved.d_kv, spec_.plain_size + spec_.value_size);
  context.kernels.copy(context.stream, d_kv.slice(2, 0, spec_.plain_size),
                       d_k.slice(2, 0, spec_.plain_size));
  const View d_key = rows_.partial_sum(saved.all_key, saved.own_key);
  context.kernels.sum_heads(context.stream, d_key,
                            d_k.slice(2, spec_.plain_size, spec_.rotary_size));
  rotate(context, batch, by_heads(d_key, batch.shape, spec_.rotary_size), true);
  rows_.sum(context, saved.own_key, d_key)->wait(context.stream);
  context.kernels.copy(context.stream, key_part(saved.d_down), saved.own_key);
}

// d_raw = the gradient of a latent before its norm, from that of the heads.
void LatentAttention::backward_latent(Context& context, const ParallelLinear& up, Norm& norm,
                                      const Latent& latent, View d_raw, ConstView raw,
                                      ConstView d_heads) const {
  up.backward_input(context, latent.d_normed, d_heads, latent.scratch())->wait(context.stream);
  norm.backward(context, d_raw, latent.d_normed, raw, latent.stats, false);
}

WorkHandle LatentAttention::backward_input(Context& context, const Microbatch& batch, View dx,
                                           ConstView dy, Sublayer::Saved& state,
                                           const LinearScratch& linear) {
  auto& saved = static_cast<Saved&>(state);
  const ConstView dy_seen = saved.rows.begin_backward(context, rows_, linear.all, dy);
  if (recompute_)
    core_forward(context, batch, saved.rows.own_input(), saved, linear);
  else
    assemble_keys(context, saved);
  // Communication may overlap with the computation of the output's gradient.
  core_->start_backward(context, core_heads(saved, batch.shape), *saved.core, recompute_);
  out_->backward_input(context, saved.d_out, dy_seen, linear)->wait(context.stream);
  backward_core(context, batch, saved);
  backward_keys(context, batch, saved);
  backward_latent(context, *kv_up_, *kv_norm_, saved.kv_latent, kv_part(saved.d_down),
                  kv_part(saved.down), saved.d_kv);
  if (q_norm_) {
    backward_latent(context, *q_up_, *q_norm_, saved.q_latent, q_part(saved.d_down),
                    q_part(saved.down), saved.d_q);
    return down_.backward_input(context, dx, saved.d_down, linear);
  }
  q_up_->backward_input(context, dx, saved.d_q, linear)->wait(context.stream);
  down_.add_input_gradient(context, dx, saved.d_down);
  saved.rows.fetch_input(context, rows_, linear.all);
  return std::make_shared<Work>();
}

void LatentAttention::backward_weight(Context& context, Sublayer::Saved& state,
                                      const LinearScratch& linear) {
  auto& saved = static_cast<Saved&>(state);
  const ConstView dy = q_norm_ ? saved.rows.output_gradient(context, rows_, linear.all)
                               : saved.rows.begin_weight(context, rows_, linear.all);
  out_->backward_weight(context, dy, saved.out, linear);
  down_.backward_weight(context, saved.d_down, saved.rows.own_input(), linear);
  const ConstView q_input =
      q_norm_ ? gathered(context, saved.q_latent) : saved.rows.input(context, rows_, linear.all);
  q_up_->backward_weight(context, saved.d_q, q_input, linear);
  kv_up_->backward_weight(context, saved.d_kv, gathered(context, saved.kv_latent), linear);
}

}  // namespace tessera
