// Attention of one new position per sample over cached latents, for generation. No key or value of
// a head is computed (weight absorption): queries are multiplied by the key projection and compared
// with the latents directly, and the weighted sum of latents is multiplied by the value projection.
// For head h, with latents c:
//
//   scores   q_h . (W_k,h c) = (q_h W_k,h) . c
//
//   output   sum over positions of p W_v,h c = W_v,h (sum over positions of p c)
//
// The scores of all heads of a sample are then one matrix product, since the heads share the
// latents and the rotated key.
//
// Shape legend: B samples, T positions in the cache; H heads of this rank; Lk width of the latent,
// P plain and R rotary channels, D = P + R; E channels of a value.
#pragma once

#include "tessera/nn/microbatch.h"
#include "tessera/parallel/context.h"
#include "tessera/spec/layer_spec.h"
#include "tessera/tensor/arena_layout.h"

namespace tessera {

class CachedLatentAttention {
 public:
  /// `heads`: of this rank.
  CachedLatentAttention(const LatentAttentionSpec& spec, std::int64_t heads, DType dtype);

  /// [B, H Lk]: queries in the space of the latents, then sums of latents.
  View plan_scratch(ArenaLayout& scratch, std::int64_t batch) const;
  std::size_t workspace_bytes(std::int64_t keys) const;

  /// out [B, H E] of q [B, H D], rotated. weight [H (P + E), Lk] projects latents to keys and
  /// values; cache [capacity, B, 1, Lk + R] has latents and rotated keys, the new position
  /// included.
  void forward(Context&, const Microbatch&, const View& out, const View& absorbed, ConstView q,
               ConstView weight, ConstView cache) const;

 private:
  void attend(Context&, const View& absorbed, ConstView rotary, ConstView cached) const;
  std::size_t score_bytes(std::int64_t keys) const;

  LatentAttentionSpec spec_;
  std::int64_t heads_;
  DType dtype_;
};

}  // namespace tessera
