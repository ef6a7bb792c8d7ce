// What both passes of the tensor-core backward do: probabilities and the gradients of scores, for
// 16 queries and 16 keys. The formulas are those of attention_backward.cu.
#pragma once

#include "tessera/kernels/cuda/attention/attention_tiles.cuh"

namespace tessera::cuda {

/// What a lane knows of its two queries.
struct LaneGradients {
  LaneQueries queries;
  float lse[2];  ///< times log2(e)
  float delta[2];
};

/// Scores and d_o v^T of 16 queries and 16 keys become the dropped probabilities M P and dS. `key`
/// is the lane's first.
template <class T>
__device__ void score_gradients(float (&scores)[2][4], float (&products)[2][4],
                                const AttentionCall<T>& call, std::int64_t sample, std::int64_t h,
                                const LaneGradients& lane, int key, bool whole) {
  const float scale = call.scale * kLog2E;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    float factors[4] = {1, 1, 1, 1};
    if (call.dropout.on) call.dropout.factors(factors, sample, h, lane.queries.query[r], key);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float& score = scores[i / 2][2 * r + i % 2];
      float& product = products[i / 2][2 * r + i % 2];
      const bool seen = whole || lane.queries.sees(r, key + i);
      const float capped = call.softcap > 0 ? call.capped(score * call.scale) : 0.0f;
      const float exponent = call.softcap > 0 ? capped * kLog2E : score * scale;
      const float p = exp2_of(exponent - lane.lse[r]);
      score = seen ? p * factors[i] : 0.0f;
      product = seen ? p * (product * factors[i] - lane.delta[r]) * call.cap_slope(capped) : 0.0f;
    }
  }
}

}  // namespace tessera::cuda
