#include "tessera/nn/attention.h"

#include <algorithm>

#include "tessera/base/check.h"

namespace tessera {
namespace {

// Split as the query heads are. With 2-D tensor parallelism the ranks of a grid column have the
// same heads of different samples.
std::optional<Parameter> make_sinks(const AttentionLayerSpec& spec, const LayerContext& layer) {
  if (spec.softmax != SoftmaxType::learnable) return std::nullopt;
  const InitSpec init{InitKind::normal, spec.init_std};
  if (layer.tensor_2d == 0) return split_vector({sinks_name(spec), spec.heads}, init, layer);
  return column_parameter(layer.dtype, sinks_name(spec), {spec.heads},
                          balanced_range(spec.heads, layer.shards(), layer.shard()), init,
                          layer.tensor_row());
}

}  // namespace

Attention::Attention(const AttentionLayerSpec& spec, const LayerContext& layer,
                     const RopeTable* rope)
    : spec_(spec),
      recompute_core_(layer.recompute_core_attention),
      dtype_(layer.dtype),
      rows_(layer),
      heads_(spec.heads / layer.shards()),
      groups_(spec.groups / layer.shards_of(spec.groups)),
      rope_(rope),
      qkv_(make_first_linear(qkv_linear(spec), layer)),
      out_(make_last_linear(output_linear(spec), layer)),
      sinks_(make_sinks(spec, layer)) {
  check(spec.heads % spec.groups == 0, "{} query heads cannot share {} key/value heads", spec.heads,
        spec.groups);
  check(spec.heads % layer.shards() == 0 && spec.groups % layer.shards_of(spec.groups) == 0,
        "{} query heads and {} key/value heads cannot be shared evenly by {} ranks", spec.heads,
        spec.groups, layer.shards());
  core_ = make_core_attention(
      {.dtype = dtype_,
       .layer = spec.layer,
       .heads = heads_,
       .groups = groups_,
       .head_size = spec.head_size,
       .value_size = spec.head_size,
       .softmax_scale = spec.softmax_scale,
       .softcap = spec.softcap,
       .causal = true,
       .window = spec.window,
       .chunk = spec.chunk,
       .softmax = spec.softmax,
       .dropout = spec.dropout,
       .dropout_key = rng_key(layer.seed, RngPurpose::attention_dropout, spec.name),
       .first_head = heads_ * layer.shard(),
       .recompute = recompute_core_},
      layer);
  const auto make_norm = [&](const char* name, std::int64_t heads) -> std::unique_ptr<Norm> {
    switch (spec.qk_norm) {
      case QkNorm::none:
      case QkNorm::l2: return nullptr;
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

// All whose gradients backward_input computes.
void Attention::collect_norms(ParameterList& parameters) {
  if (sinks_) parameters.push_back(&*sinks_);
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
  if (norms_heads())
    saved.normed = activations.until_input.take(dtype_, {n, (heads_ + groups_) * d});
  if (q_norm_) {
    saved.q_stats = activations.until_input.take(acc, {n * norms_per_row(heads_), 2});
    saved.k_stats = activations.until_input.take(acc, {n * norms_per_row(groups_), 2});
  }
  // A split backward reads the output later, when scratch has been overwritten.
  const bool in_scratch = recompute_core_ && !activations.split_backward;
  ArenaLayout& core = in_scratch ? scratch : activations.until_weight;
  saved.out = core.take(dtype_, {n, heads_ * d});
  saved.core = core_->plan_buffers(activations, scratch, shape);
  saved.d_qkv = activations.gradient(scratch, dtype_, {n, (heads_ + 2 * groups_) * d});
  saved.rows = SublayerRows(activations, rows_, dtype_, shape, spec_.hidden);
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
  const std::size_t core =
      core_->workspace_bytes(kernels, shape, keys, AttentionGradients::written);
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
  return heads(norms_heads() ? saved.normed : saved.qkv, shape, 0, heads_);
}
View Attention::keys(const Saved& saved, const BatchShape& shape) const {
  return heads(norms_heads() ? saved.normed : saved.qkv, shape, heads_, groups_);
}
View Attention::values(const Saved& saved, const BatchShape& shape) const {
  return heads(saved.qkv, shape, heads_ + groups_, groups_);
}

CoreAttention::Heads Attention::core_heads(const Saved& saved, const BatchShape& shape) const {
  return {queries(saved, shape), keys(saved, shape), values(saved, shape),
          sinks_ ? ConstView(sinks_->value()) : ConstView()};
}

View Attention::norm_rows(const View& rows, std::int64_t first, std::int64_t count) const {
  const std::int64_t d = spec_.head_size;
  if (spec_.qk_norm == QkNorm::whole_width) return rows.slice(1, first * d, count * d);
  return rows.split_last({rows.dim(1) / d, d}).slice(1, first, count);
}

std::int64_t Attention::norms_per_row(std::int64_t count) const {
  return spec_.qk_norm == QkNorm::whole_width ? 1 : count;
}

View Attention::queries_and_keys(const View& rows) const {
  const std::int64_t d = spec_.head_size;
  return rows.split_last({rows.dim(1) / d, d}).slice(1, 0, heads_ + groups_);
}

// Normalises queries and keys, then rotates them by their positions.
void Attention::prepare_heads(Context& context, const Microbatch& batch, Saved& saved) const {
  const BatchShape& shape = batch.shape;
  if (norms_heads())
    check(saved.normed.dim(0) == shape.rows(),
          "attention: activation buffer of {} rows, batch of {}", saved.normed.dim(0),
          shape.rows());
  if (spec_.qk_norm == QkNorm::l2)
    context.kernels.l2_norm_forward(context.stream, queries_and_keys(saved.normed),
                                    queries_and_keys(saved.qkv), spec_.norm.epsilon);
  if (q_norm_) {
    q_norm_->forward(context, norm_rows(saved.normed, 0, heads_), saved.q_stats,
                     norm_rows(saved.qkv, 0, heads_));
    k_norm_->forward(context, norm_rows(saved.normed, heads_, groups_), saved.k_stats,
                     norm_rows(saved.qkv, heads_, groups_));
  }
  rotate(context, batch, norms_heads() ? saved.normed : saved.qkv, false);
}

// Queries and keys are adjacent, so one call rotates both. A temperature scales queries alone.
void Attention::rotate(Context& context, const Microbatch& batch, const View& qk,
                       bool inverse) const {
  if (!rope_) return;
  const bool interleaved = spec_.rope && spec_.rope->interleaved;
  const std::int64_t count = spec_.rope ? heads_ + groups_ : heads_;
  context.kernels.rope(context.stream, heads(qk, batch.shape, 0, count), rope_->cos(), rope_->sin(),
                       batch.positions, inverse,
                       interleaved ? RopePairs::interleaved : RopePairs::halves);
}

// Backward of prepare_heads, in place in d_qkv.
void Attention::backward_heads(Context& context, const Microbatch& batch, Saved& saved) {
  rotate(context, batch, saved.d_qkv, true);
  if (spec_.qk_norm == QkNorm::l2) {
    const View d = queries_and_keys(saved.d_qkv);
    context.kernels.l2_norm_backward(context.stream, d, d, queries_and_keys(saved.qkv),
                                     spec_.norm.epsilon);
  }
  if (!q_norm_) return;
  const View dq = norm_rows(saved.d_qkv, 0, heads_);
  const View dk = norm_rows(saved.d_qkv, heads_, groups_);
  q_norm_->backward(context, dq, dq, norm_rows(saved.qkv, 0, heads_), saved.q_stats, false);
  k_norm_->backward(context, dk, dk, norm_rows(saved.qkv, heads_, groups_), saved.k_stats, false);
}

void Attention::core_forward(Context& context, const Microbatch& batch, Saved& saved) const {
  core_->forward(context, batch, heads(saved.out, batch.shape, 0, heads_),
                 core_heads(saved, batch.shape), *saved.core);
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
  if (recompute_core_) core_forward(context, batch, saved);
  // Communication may overlap with the computation of the output's gradient.
  const CoreAttention::Heads all = core_heads(saved, shape);
  core_->start_backward(context, all, *saved.core, recompute_core_);
  out_->backward_input(context, saved.d_out, dy_seen, linear)->wait(context.stream);
  core_->backward(
      context, batch,
      {heads(saved.d_qkv, shape, 0, heads_), heads(saved.d_qkv, shape, heads_, groups_),
       heads(saved.d_qkv, shape, heads_ + groups_, groups_), sinks_ ? sinks_->grad() : Gradient{}},
      heads(saved.d_out, shape, 0, heads_), all, heads(saved.out, shape, 0, heads_), *saved.core);
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
