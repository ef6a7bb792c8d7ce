#include "tessera/nn/latent/cached_latent_attention.h"

#include <algorithm>

#include "tessera/base/check.h"

namespace tessera {

CachedLatentAttention::CachedLatentAttention(const LatentAttentionSpec& spec, std::int64_t heads,
                                             DType dtype)
    : spec_(spec), heads_(heads), dtype_(dtype) {}

View CachedLatentAttention::plan_scratch(ArenaLayout& scratch, std::int64_t batch) const {
  return scratch.take(dtype_, {batch, heads_ * spec_.kv_rank});
}

// Of the scores, in the accumulator type, up to where the weights begin.
std::size_t CachedLatentAttention::score_bytes(std::int64_t keys) const {
  constexpr std::size_t kAlignment = 256;
  const std::size_t bytes =
      static_cast<std::size_t>(heads_ * keys) * element_size(accumulator_type(dtype_));
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

std::size_t CachedLatentAttention::workspace_bytes(std::int64_t keys) const {
  return score_bytes(keys) + static_cast<std::size_t>(heads_ * keys) * element_size(dtype_);
}

void CachedLatentAttention::forward(Context& context, const Microbatch& batch, const View& out,
                                    const View& absorbed, ConstView q, ConstView weight,
                                    ConstView cache) const {
  const std::int64_t plain = spec_.plain_size, value = spec_.value_size, rank = spec_.kv_rank;
  const std::int64_t size = spec_.head_size();
  const auto multiply = [&](const View& d, ConstView a, ConstView b, bool transpose_b) {
    GemmSpec spec;
    spec.transpose_b = transpose_b;
    context.kernels.gemm(context.stream, d, a, b, spec);
  };
  for (std::int64_t h = 0; h < heads_; ++h)
    multiply(absorbed.slice(1, h * rank, rank), q.slice(1, h * size, plain),
             weight.slice(0, h * (plain + value), plain), false);
  const std::int64_t end = batch.ranges.at(0) + 1;
  const std::int64_t begin = spec_.window > 0 ? std::max<std::int64_t>(0, end - spec_.window) : 0;
  const ConstView seen = cache.slice(0, begin, end - begin);
  for (std::int64_t b = 0; b < batch.shape.batch; ++b) {
    const ConstView first = seen.slice(1, b, 1);
    attend(context, absorbed.slice(0, b, 1).reshape({heads_, rank}),
           q.slice(0, b, 1).reshape({heads_, size}).slice(1, plain, spec_.rotary_size),
           {first.raw(), dtype_, {end - begin, seen.dim(3)}, {seen.stride(0), 1}});
  }
  for (std::int64_t h = 0; h < heads_; ++h)
    multiply(out.slice(1, h * value, value), absorbed.slice(1, h * rank, rank),
             weight.slice(0, h * (plain + value) + plain, value), true);
}

// One sample: queries of all heads, absorbed [H, Lk] and rotary [H, R], over cached [T, Lk + R].
// The sums of latents replace the queries.
void CachedLatentAttention::attend(Context& context, const View& absorbed, ConstView rotary,
                                   ConstView cached) const {
  const std::int64_t keys = cached.dim(0);
  check(context.workspace.bytes() >= workspace_bytes(keys),
        "attention over {} cached latents: the workspace has {} bytes", keys,
        context.workspace.bytes());
  auto* memory = static_cast<std::byte*>(context.workspace.raw());
  const View scores(memory, accumulator_type(dtype_), {heads_, keys});
  const View weights(memory + score_bytes(keys), dtype_, {heads_, keys});
  const ConstView latents = cached.slice(1, 0, spec_.kv_rank);
  GemmSpec spec;
  spec.transpose_b = true;
  spec.alpha = spec_.softmax_scale;
  context.kernels.gemm(context.stream, scores, ConstView(absorbed), latents, spec);
  spec.accumulate = true;
  context.kernels.gemm(context.stream, scores, rotary,
                       cached.slice(1, spec_.kv_rank, spec_.rotary_size), spec);
  context.kernels.scale_logits(context.stream, scores, {1.0, spec_.softcap});
  context.kernels.softmax_rows(context.stream, weights, scores);
  context.kernels.gemm(context.stream, absorbed, ConstView(weights), latents, {});
}

}  // namespace tessera
