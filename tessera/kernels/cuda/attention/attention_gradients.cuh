// Shared by both passes of the tensor-core backward: probabilities and gradients of scores for one
// fragment of 16 queries and 16 keys. The formulas are those of attention_backward.cu.
#pragma once

#include "tessera/kernels/cuda/attention/attention_tiles.cuh"

namespace tessera::cuda {

/// What a lane keeps of its two queries, rows g and g + 8 of the warp.
struct LaneGradients {
  LaneQueries queries;
  float lse[2];  ///< times log2(e)
  float delta[2];
};

/// In: scores = q k^T (not scaled) and products = d_o v^T, as accumulator fragments. Out: scores =
/// M P and products = dS, where
///
///   P  = 2^(scale log2(e) s - lse log2(e))
///   dS = P (M (d_o v^T) - delta) (1 - (c / cap)^2)    c: the capped score, if there is a soft cap
///
/// `key` is the first of the lane's four neighbouring keys; `whole` says that no element is masked.
template <class T>
__device__ void score_gradients(float (&scores)[2][4], float (&products)[2][4],
                                const AttentionCall<T>& call, std::int64_t sample, std::int64_t h,
                                const LaneGradients& lane, int key, bool whole) {
  const float scale = call.scale * kLog2E;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    // One Philox call per row covers the lane's four keys. The mask is recomputed from the
    // coordinates, never stored.
    float factors[4] = {1, 1, 1, 1};
    if (call.dropout.on) call.dropout.factors(factors, sample, h, lane.queries.query[r], key);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float& score = scores[i / 2][2 * r + i % 2];
      float& product = products[i / 2][2 * r + i % 2];
      // Elements that are not seen are replaced at the end rather than skipped: 2^(s - lse) of a
      // query without keys (lse = -inf) is inf or NaN and must not reach the products.
      const bool seen = whole || lane.queries.sees(r, key + i);
      const float capped = call.softcap > 0 ? call.capped(score * call.scale) : 0.0f;
      // One rounding: the compiler would not fuse a product that it selects first.
      const float exponent =
          call.softcap > 0 ? fmaf(capped, kLog2E, -lane.lse[r]) : fmaf(score, scale, -lane.lse[r]);
      const float p = exp2_of(exponent);
      score = seen ? p * factors[i] : 0.0f;
      product = seen ? p * (product * factors[i] - lane.delta[r]) * call.cap_slope(capped) : 0.0f;
    }
  }
}

}  // namespace tessera::cuda
