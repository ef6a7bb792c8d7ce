// Attention forward by tensor cores: a warp holds 16 queries and keeps a running maximum and sum
// over tiles of 64 keys. Scores are kept times log2(e), so that a probability is one exp2.
#include "tessera/kernels/cuda/attention/attention_kernels.h"
#include "tessera/kernels/cuda/attention/attention_tiles.cuh"
#include "tessera/kernels/cuda/launch.cuh"

namespace tessera::cuda {
namespace {

using std::int64_t;

// Scores of 16 queries and 64 keys: [16 keys][8 columns of them][fragment].
using Scores = float[kTileKeys / 16][2][4];

// The i-th of a lane's scores in its row r: key 4t + i % 4 of the 16 keys with number i / 4.
__device__ float& score_at(Scores& scores, int r, int i) {
  return scores[i / 4][i % 4 / 2][2 * r + i % 2];
}
constexpr int kLaneScores = kTileKeys / 4;

// What a lane keeps of its two queries between tiles; `sum` is over the lane's own columns.
struct RunningSoftmax {
  float maximum[2] = {-INFINITY, -INFINITY};
  float sum[2] = {0, 0};

  // Turns scores into unnormalised probabilities; what was summed up so far is to be multiplied by
  // `rescale`.
  __device__ void fold(Scores& scores, float (&rescale)[2]) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float top = maximum[r];
#pragma unroll
      for (int i = 0; i < kLaneScores; ++i) top = fmaxf(top, score_at(scores, r, i));
      top = fmaxf(top, __shfl_xor_sync(kAllLanes, top, 1));
      top = fmaxf(top, __shfl_xor_sync(kAllLanes, top, 2));
      const float base = top == -INFINITY ? 0.0f : top;  // no key was seen yet
      rescale[r] = exp2_of(maximum[r] - base);
      float added = 0;
#pragma unroll
      for (int i = 0; i < kLaneScores; ++i) {
        float& score = score_at(scores, r, i);
        score = exp2_of(score - base);
        added += score;
      }
      sum[r] = sum[r] * rescale[r] + added;
      maximum[r] = top;
    }
  }

  // The sum over the whole row, in every lane that holds a part of it.
  __device__ float total(int r) const {
    float all = sum[r] + __shfl_xor_sync(kAllLanes, sum[r], 1);
    all += __shfl_xor_sync(kAllLanes, all, 2);
    return all;
  }
};

// Scales and caps the scores of the keys that are seen; those of the others become minus infinity.
template <class T>
__device__ void mask_scores(Scores& scores, const AttentionCall<T>& call, const LaneQueries& lane,
                            int first_key) {
  const float scale = call.scale * kLog2E;
  const bool whole = lane.see_all(first_key, kTileKeys);
  const int key = first_key + 4 * Lane().t;
#pragma unroll
  for (int i = 0; i < 2 * kLaneScores; ++i) {
    const int r = i / kLaneScores;
    const int j = i % kLaneScores;
    float& score = score_at(scores, r, j);
    const bool seen = whole || lane.sees(r, key + j / 4 * 16 + j % 4);
    const float value = call.softcap > 0 ? call.capped(score * call.scale) * kLog2E : score * scale;
    score = seen ? value : -INFINITY;
  }
}

__device__ void drop_scores(Scores& scores, const ProbabilityDropout<float>& dropout,
                            int64_t sample, int64_t h, const LaneQueries& lane, int first_key) {
#pragma unroll
  for (int i = 0; i < 2 * kLaneScores; i += 4) {
    const int r = i / kLaneScores;
    const int j = i % kLaneScores;
    float factors[4];
    dropout.factors(factors, sample, h, lane.query[r], first_key + j * 4 + 4 * Lane().t);
#pragma unroll
    for (int n = 0; n < 4; ++n) score_at(scores, r, j + n) *= factors[n];
  }
}

// q of the block, then two tiles each of k and v.
template <class T, int kHead>
struct ForwardShared {
  static constexpr std::size_t kBytes = Tile<T, kHead>::bytes(kBlockQueries + 4 * kTileKeys);
  __device__ explicit ForwardShared(SharedLayout layout)
      : q(layout.tile<T, kHead>(kBlockQueries)),
        k(layout.tile<T, kHead>(2 * kTileKeys)),
        v(layout.tile<T, kHead>(2 * kTileKeys)) {}
  Tile<T, kHead> q, k, v;
};

// A warp's 16 queries and what it sums up for them.
template <class T, int kHead>
struct ForwardWarp {
  __device__ explicit ForwardWarp(const LaneQueries& queries) : lane(queries) {}

  __device__ void add_tile(const AttentionCall<T>& call, int64_t sample, int64_t h, int first_key,
                           const Tile<T, kHead>& k, const Tile<T, kHead>& v) {
    if (!lane.see_any(first_key, kTileKeys)) return;
    Scores scores = {};
#pragma unroll
    for (int j = 0; j < kTileKeys / 16; ++j) multiply_by_rows(scores[j], q, k, 16 * j);
    float rescale[2];
    mask_scores(scores, call, lane, first_key);
    softmax.fold(scores, rescale);
    if (call.dropout.on) drop_scores(scores, call.dropout, sample, h, lane, first_key);
#pragma unroll
    for (int i = 0; i < kHead / 8 * 4; ++i) out[i / 4][i % 4] *= rescale[i % 4 / 2];
#pragma unroll
    for (int j = 0; j < kTileKeys / 16; ++j) {
      std::uint32_t p[4];
      round_to_rows<T>(p, scores[j]);
      multiply_by_columns(out, p, v, 16 * j);
    }
  }

  // o through the warp's own rows of a tile; lse [S].
  __device__ void finish(const HeadRows<T>& o, float* lse, const Tile<T, kHead>& tile, int first,
                         int row0) const {
    float inverse[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float sum = softmax.total(r);
      inverse[r] = sum == 0 ? 0.0f : 1 / sum;
      if (lane.query[r] < o.count && Lane().t == 0)
        lse[lane.query[r]] = softmax.maximum[r] * kLn2 + logf(sum);
    }
    store_sums(tile, row0 + Lane().g, row0 + Lane().g + 8, 0, out, inverse[0], inverse[1]);
    __syncwarp();
    write_rows(o, first, tile, row0, row0 + 16, Lane().index, kWarp);
  }

  LaneQueries lane;
  RunningSoftmax softmax;
  std::uint32_t q[kHead / 16][4];
  float out[kHead / 8][4] = {};
};

template <class T, int kHead>
__global__ void __launch_bounds__(kTileThreads, kHead == 64 ? 2 : 1)
    tensor_forward_kernel(AttentionCall<T> call, Heads<T> o, float* lse) {
  const int queries = static_cast<int>(call.seen.queries);
  const BlockPlace at((queries - 1) / kBlockQueries + 1, call.heads, call.batch, true);
  const int first = at.tile * kBlockQueries;
  const int row0 = 16 * Lane().warp;
  const ForwardShared<T, kHead> shared({shared_memory()});
  const KeyStream<T, kHead> keys = keys_for(call, at, first, shared.k, shared.v);
  start_queries<kBlockQueries>(shared.q, {call.q, at.b, at.h, queries}, first);
  keys.start(keys.tiles.begin);
  const int64_t sample = call.dropout.on ? call.dropout.samples[at.b] : 0;
  ForwardWarp<T, kHead> warp(LaneQueries(call.seen, at.b, first + row0));
  wait_for_copies();
  __syncthreads();
  load_rows(warp.q, shared.q, row0);
  keys.run([&](int first_key, const Tile<T, kHead>& k, const Tile<T, kHead>& v) {
    warp.add_tile(call, sample, at.h, first_key, k, v);
  });
  warp.finish({o, at.b, at.h, queries}, lse + (at.b * call.heads + at.h) * queries, shared.q, first,
              row0);
}

}  // namespace

void attention_forward_tiles(Stream& stream, const View& o, const View& lse, const ConstView& q,
                             const ConstView& k, const ConstView& v, const AttentionSpec& spec) {
  dispatch_tiles(q, [&]<class T, int kHead>(TypeTag<T>, std::integral_constant<int, kHead>) {
    const int64_t blocks = (q.dim(0) + kBlockQueries - 1) / kBlockQueries * q.dim(1) * q.dim(2);
    launch(stream, "attention_forward",
           {blocks, dim3(kTileThreads), ForwardShared<T, kHead>::kBytes},
           tensor_forward_kernel<T, kHead>, AttentionCall<T>(q, k, v, spec), heads_of<T>(o),
           lse.data<float>());
  });
}

}  // namespace tessera::cuda
