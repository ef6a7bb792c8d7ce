#include "tessera/nn/attention.h"

#include <algorithm>

#include "tessera/base/check.h"

namespace tessera {
Attention::Attention(const AttentionLayerSpec& spec, const LayerContext& layer,
                     const RopeTable* rope)
    : spec_(spec),
      recompute_core_(layer.recompute_core_attention),
      dtype_(layer.dtype),
      rows_(layer),
      heads_(spec.heads / layer.shards()),
      groups_(spec.groups / layer.shards_of(spec.groups)),
      first_head_(heads_ * layer.shard()),
      dropout_key_(rng_key(layer.seed, RngPurpose::attention_dropout, spec.name)),
      rope_(rope),
      kv_(layer, groups_, spec.head_size, spec.head_size),
      qkv_(make_first_linear(qkv_linear(spec), layer)),
      out_(make_last_linear(output_linear(spec), layer)) {
  check(spec.heads % spec.groups == 0, "{} query heads cannot share {} key/value heads", spec.heads,
        spec.groups);
  check(spec.heads % layer.shards() == 0 && spec.groups % layer.shards_of(spec.groups) == 0,
        "{} query heads and {} key/value heads cannot be shared evenly by {} ranks", spec.heads,
        spec.groups, layer.shards());
  const auto make_norm = [&](const char* name, std::int64_t heads) -> std::unique_ptr<Norm> {
    switch (spec.qk_norm) {
      case QkNorm::none: return nullptr;
      case QkNorm::per_head:
        return make_head_norm(spec.name + name, spec.head_size, spec.norm, layer);
      case QkNorm::whole_width:
        return make_heads_norm(spec.name + name, heads, spec.head_size, spec.norm, layer);
    }
    return nullptr;
  };
  q_norm_ = make_norm(".q_norm", spec.heads);
  k_norm_ = make_norm(".k_norm", spec.groups);
}

void Attention::collect(ParameterList& parameters) {
  qkv_->collect(parameters);
  out_->collect(parameters);
  collect_norms(parameters);
}

void Attention::collect_norms(ParameterList& parameters) {
  if (!q_norm_) return;
  q_norm_->collect(parameters);
  k_norm_->collect(parameters);
}

std::unique_ptr<Sublayer::Saved> Attention::plan_buffers(ActivationLayout& activations,
                                                         ArenaLayout& scratch,
                                                         const BatchShape& shape) const {
  const std::int64_t n = shape.rows();
  const std::int64_t d = spec_.head_size;
  const DType acc = accumulator_type(dtype_);
  auto planned = std::make_unique<Saved>();
  Saved& saved = *planned;
  saved.qkv = activations.until_input.take(dtype_, {n, (heads_ + 2 * groups_) * d});
  if (q_norm_) {
    saved.normed = activations.until_input.take(dtype_, {n, (heads_ + groups_) * d});
    saved.q_stats = activations.until_input.take(acc, {n * norms_per_row(heads_), 2});
    saved.k_stats = activations.until_input.take(acc, {n * norms_per_row(groups_), 2});
  }
  // A split backward reads the output later, when scratch has been overwritten.
  const bool in_scratch = recompute_core_ && !activations.split_backward;
  ArenaLayout& core = in_scratch ? scratch : activations.until_weight;
  saved.out = core.take(dtype_, {n, heads_ * d});
  saved.lse = (recompute_core_ ? scratch : activations.until_input)
                  .take(acc, {shape.batch * heads_ * shape.seq});
  saved.d_qkv = activations.gradient(scratch, dtype_, {n, (heads_ + 2 * groups_) * d});
  saved.rows = SublayerRows(activations, rows_, dtype_, shape, spec_.hidden);
  saved.kv = kv_.plan_scratch(scratch, shape, activations.gradients);
  if (activations.gradients) saved.d_out = scratch.take(dtype_, {n, heads_ * d});
  return planned;
}

KvCache::Layer Attention::plan_cache(ArenaLayout& memory, const BatchShape& capacity) const {
  const Shape shape{capacity.seq, capacity.batch, groups_, spec_.head_size};
  const View k = memory.take(dtype_, shape);
  return {k, memory.take(dtype_, shape)};
}

SummaSizes Attention::summa_sizes(const BatchShape& shape) const {
  return qkv_->summa_sizes(shape.rows()).or_else(out_->summa_sizes(shape.rows()));
}

std::size_t Attention::workspace_bytes(const Kernels& kernels, const BatchShape& shape,
                                       std::int64_t keys) const {
  const std::int64_t d = spec_.head_size;
  const Shape cached{keys, shape.batch, groups_, d};
  const std::size_t core = kernels.attention_workspace_bytes({shape.seq, shape.batch, heads_, d},
                                                             cached, cached, dtype_);
  if (!q_norm_) return core;
  return std::max({core, q_norm_->workspace_bytes(kernels, shape.rows() * norms_per_row(heads_)),
                   k_norm_->workspace_bytes(kernels, shape.rows() * norms_per_row(groups_))});
}

// Heads [first, first + count) of rows [N, heads D] as [S, B, count, D].
View Attention::heads(const View& rows, const BatchShape& shape, std::int64_t first,
                      std::int64_t count) const {
  const std::int64_t d = spec_.head_size;
  const std::int64_t width = rows.dim(1);
  return View(rows.raw(), dtype_, {shape.seq, shape.batch, width / d, d}).slice(2, first, count);
}

View Attention::queries(const Saved& saved, const BatchShape& shape) const {
  return heads(q_norm_ ? saved.normed : saved.qkv, shape, 0, heads_);
}
View Attention::keys(const Saved& saved, const BatchShape& shape) const {
  return heads(q_norm_ ? saved.normed : saved.qkv, shape, heads_, groups_);
}
View Attention::values(const Saved& saved, const BatchShape& shape) const {
  return heads(saved.qkv, shape, heads_ + groups_, groups_);
}

// The log-sum-exp of one range of queries; the ranges are stored one after the other.
View Attention::lse(const Saved& saved, const BatchShape& shape, const PositionRange& range) const {
  const std::int64_t heads = shape.batch * heads_;
  return saved.lse.slice(0, heads * range.row, heads * range.length)
      .reshape({shape.batch, heads_, range.length});
}

AttentionSpec Attention::core_spec(const Microbatch& batch, std::int64_t q_start,
                                   std::int64_t kv_start) const {
  AttentionSpec spec;
  spec.scale = spec_.softmax_scale;
  spec.softcap = spec_.softcap;
  spec.window = spec_.window;
  spec.q_start = q_start;
  spec.kv_start = kv_start;
  spec.documents = batch.documents;
  spec.head_start = first_head_;
  spec.dropout = {batch.training ? spec_.dropout : 0.0, dropout_key_, batch.samples};
  return spec;
}

View Attention::norm_rows(const View& rows, std::int64_t first, std::int64_t count) const {
  const std::int64_t d = spec_.head_size;
  if (spec_.qk_norm == QkNorm::whole_width) return rows.slice(1, first * d, count * d);
  return rows.split_last({rows.dim(1) / d, d}).slice(1, first, count);
}

std::int64_t Attention::norms_per_row(std::int64_t count) const {
  return spec_.qk_norm == QkNorm::whole_width ? 1 : count;
}

// Normalises queries and keys, then rotates them by their positions.
void Attention::prepare_heads(Context& context, const Microbatch& batch, Saved& saved) const {
  const BatchShape& shape = batch.shape;
  if (q_norm_) {
    check(saved.normed.dim(0) == shape.rows(),
          "attention: activation buffer of {} rows, batch of {}", saved.normed.dim(0),
          shape.rows());
    q_norm_->forward(context, norm_rows(saved.normed, 0, heads_), saved.q_stats,
                     norm_rows(saved.qkv, 0, heads_));
    k_norm_->forward(context, norm_rows(saved.normed, heads_, groups_), saved.k_stats,
                     norm_rows(saved.qkv, heads_, groups_));
  }
  rotate(context, batch, q_norm_ ? saved.normed : saved.qkv, false);
}

// Queries and keys are adjacent, so one call rotates both.
void Attention::rotate(Context& context, const Microbatch& batch, const View& qk,
                       bool inverse) const {
  if (!rope_) return;
  const RopePairs pairs = spec_.rope->interleaved ? RopePairs::interleaved : RopePairs::halves;
  context.kernels.rope(context.stream, heads(qk, batch.shape, 0, heads_ + groups_), rope_->cos(),
                       rope_->sin(), batch.positions, inverse, pairs);
}

// Backward of prepare_heads, in place in d_qkv.
void Attention::backward_heads(Context& context, const Microbatch& batch, Saved& saved) {
  rotate(context, batch, saved.d_qkv, true);
  if (!q_norm_) return;
  const View dq = norm_rows(saved.d_qkv, 0, heads_);
  const View dk = norm_rows(saved.d_qkv, heads_, groups_);
  q_norm_->backward(context, dq, dq, norm_rows(saved.qkv, 0, heads_), saved.q_stats, false);
  k_norm_->backward(context, dk, dk, norm_rows(saved.qkv, heads_, groups_), saved.k_stats, false);
}

// Appends the new rows to a cache and returns all rows so far.
ConstView Attention::cached(Context& context, const Microbatch& batch, const View& cache,
                            ConstView fresh) const {
  const std::int64_t before = batch.ranges.at(0);
  context.kernels.copy(context.stream, cache.slice(0, before, batch.shape.seq), fresh);
  return cache.slice(0, 0, before + batch.shape.seq);
}

// The keys and values that the queries attend to: cached, or gathered before.
Attention::Keys Attention::all_keys(Context& context, const Microbatch& batch,
                                    const Saved& saved) const {
  const View k = keys(saved, batch.shape);
  const View v = values(saved, batch.shape);
  if (batch.cache) {
    KvCache::Layer& layer = batch.cache->layers.at(static_cast<std::size_t>(spec_.layer));
    return {cached(context, batch, layer.k, k), cached(context, batch, layer.v, v), 0};
  }
  const KvGather::KeysValues all = kv_.all(k, v, saved.kv);
  return {all.k, all.v, kv_.first_position(batch.ranges.at(0))};
}

// One call per range of queries, with the keys up to its end, since attention is causal.
void Attention::core_forward(Context& context, const Microbatch& batch, Saved& saved) const {
  const BatchShape& shape = batch.shape;
  kv_.finish(context, *kv_.start(context, keys(saved, shape), values(saved, shape), saved.kv),
             saved.kv);
  const Keys all = all_keys(context, batch, saved);
  batch.ranges.for_each(shape.seq, [&](const PositionRange& range) {
    const auto rows = [&](const View& x) { return x.slice(0, range.row, range.length); };
    const std::int64_t seen = range.end() - all.first;
    context.kernels.attention_forward(context.stream, rows(heads(saved.out, shape, 0, heads_)),
                                      lse(saved, shape, range), rows(queries(saved, shape)),
                                      all.k.slice(0, 0, seen), all.v.slice(0, 0, seen),
                                      core_spec(batch, range.begin, all.first), context.workspace);
  });
}

// Requires that keys and values have been gathered.
void Attention::core_backward(Context& context, const Microbatch& batch, Saved& saved) const {
  const BatchShape& shape = batch.shape;
  const Keys all = all_keys(context, batch, saved);
  const View dk = heads(saved.d_qkv, shape, heads_, groups_);
  const View dv = heads(saved.d_qkv, shape, heads_ + groups_, groups_);
  const KvGather::Gradients sums = kv_.begin_gradients(context, dk, dv, saved.kv);
  batch.ranges.for_each(shape.seq, [&](const PositionRange& range) {
    const auto rows = [&](const View& x) { return x.slice(0, range.row, range.length); };
    const std::int64_t seen = range.end() - all.first;
    context.kernels.attention_backward(
        context.stream, rows(heads(saved.d_qkv, shape, 0, heads_)), sums.dk.slice(0, 0, seen),
        sums.dv.slice(0, 0, seen), rows(heads(saved.d_out, shape, 0, heads_)),
        rows(queries(saved, shape)), all.k.slice(0, 0, seen), all.v.slice(0, 0, seen),
        rows(heads(saved.out, shape, 0, heads_)), lse(saved, shape, range),
        core_spec(batch, range.begin, all.first), context.workspace,
        {.dq = false, .dk_dv = sums.accumulate});
  });
  kv_.sum_gradients(context, dk, dv, saved.kv);
}

void Attention::forward(Context& context, const Microbatch& batch, View y, ConstView x,
                        Sublayer::Saved& state, const LinearScratch& linear) const {
  auto& saved = static_cast<Saved&>(state);
  saved.rows.set_input(x);
  qkv_->forward(context, saved.qkv, x, linear);
  prepare_heads(context, batch, saved);
  core_forward(context, batch, saved);
  out_->forward(context, y, saved.out, linear);
}

WorkHandle Attention::backward_input(Context& context, const Microbatch& batch, View dx,
                                     ConstView dy, Sublayer::Saved& state,
                                     const LinearScratch& linear) {
  auto& saved = static_cast<Saved&>(state);
  const BatchShape& shape = batch.shape;
  const ConstView dy_seen = saved.rows.begin_backward(context, rows_, linear.all, dy);
  // Keys and values are gathered while the output's gradient is computed, unless forward gathers
  // them.
  WorkHandle gathering;
  if (recompute_core_)
    core_forward(context, batch, saved);
  else
    gathering = kv_.start(context, keys(saved, shape), values(saved, shape), saved.kv);
  out_->backward_input(context, saved.d_out, dy_seen, linear)->wait(context.stream);
  if (gathering) kv_.finish(context, *gathering, saved.kv);
  core_backward(context, batch, saved);
  backward_heads(context, batch, saved);
  saved.rows.fetch_input(context, rows_, linear.all);
  return qkv_->backward_input(context, dx, saved.d_qkv, linear);
}

void Attention::backward_weight(Context& context, Sublayer::Saved& state,
                                const LinearScratch& linear) {
  auto& saved = static_cast<Saved&>(state);
  const ConstView dy = saved.rows.begin_weight(context, rows_, linear.all);
  out_->backward_weight(context, dy, saved.out, linear);
  const ConstView x = saved.rows.input(context, rows_, linear.all);
  qkv_->backward_weight(context, saved.d_qkv, x, linear);
}

}  // namespace tessera
