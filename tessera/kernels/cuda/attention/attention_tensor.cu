// Attention forward on tensor cores (bf16 and f16, head sizes D = 64 and 128), after
// FlashAttention-2.
//
// Input q [S, B, H, D], k and v [T, B, K, D] with any strides but the last; output o [S, B, H, D]
// and lse f32 [B, H, S], the log-sum-exp of each row of scores in natural logarithms.
//
// Grid: one block of 8 warps per 128 queries of one head. A warp owns 16 queries: it holds their q
// and the running output in registers and goes through the keys in tiles of 64, so warps never
// exchange partial results. Per tile j, with scores s in units of log2:
//
//   m' = max(m, max_j s)            new row maximum
//   a  = 2^(m - m')                 rescaling of everything summed so far
//   p  = 2^(s - m')                 unnormalised probabilities
//   l  = a l + sum_j p              row sum
//   o  = a o + (M p) v              M: dropout factors, 0 or 1 / (1 - p_drop)
//
// and at the end o / l and lse = m ln(2) + ln(l). The row sum l does not include dropout.
// Numerics: scores, m, l and o are f32; P is rounded to 16 bits for the product with v. Keys are
// summed in ascending tiles, an order that depends on shapes alone.
#include "tessera/kernels/cuda/attention/attention_kernels.h"
#include "tessera/kernels/cuda/attention/attention_tiles.cuh"
#include "tessera/kernels/cuda/launch.cuh"

namespace tessera::cuda {
namespace {

using std::int64_t;

// Scores of a warp's 16 queries and 64 keys as accumulator fragments: [group of 16 keys][8-column
// block][element], where elements 0 and 1 belong to row g and 2 and 3 to row g + 8.
using Scores = float[kTileKeys / 16][2][4];

// The i-th of a lane's 16 scores in its row r. By the permutation of keys in a tile (row_of_key) it
// is the one of key 16 (i / 4) + 4t + i % 4.
__device__ float& score_at(Scores& scores, int r, int i) {
  return scores[i / 4][i % 4 / 2][2 * r + i % 2];
}
constexpr int kLaneScores = kTileKeys / 4;

// What a lane keeps of its two queries between tiles. `maximum` is that of the whole row, in units
// of log2; `sum` covers the lane's own columns only, and the four lanes of a row add theirs once,
// at the end.
struct RunningSoftmax {
  float maximum[2] = {-INFINITY, -INFINITY};
  float sum[2] = {0, 0};

  // Turns scores into unnormalised probabilities 2^(s - m'). The caller multiplies the output
  // summed so far by `rescale`.
  __device__ void fold(Scores& scores, float (&rescale)[2]) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float top = maximum[r];
#pragma unroll
      for (int i = 0; i < kLaneScores; ++i) top = fmaxf(top, score_at(scores, r, i));
      // The four lanes of a quad (t = 0 ... 3) hold one row: two butterfly steps give all of them
      // the row's maximum.
      top = fmaxf(top, __shfl_xor_sync(kAllLanes, top, 1));
      top = fmaxf(top, __shfl_xor_sync(kAllLanes, top, 2));
      // Until a row has seen a key its maximum is -inf, and -inf - -inf would be NaN. With base 0
      // all exponentials come out as 0.
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

  // The sum over the whole row, in all four lanes that hold a part of it.
  __device__ float total(int r) const {
    float all = sum[r] + __shfl_xor_sync(kAllLanes, sum[r], 1);
    all += __shfl_xor_sync(kAllLanes, all, 2);
    return all;
  }
};

// Scales and caps the scores and converts them to units of log2; those of keys that the query does
// not see become -inf, whose exponential is exactly 0.
template <class T>
__device__ void mask_scores(Scores& scores, const AttentionCall<T>& call, const LaneQueries& lane,
                            int first_key) {
  const float scale = call.scale * kLog2E;
  // Away from the diagonal and from document boundaries no element needs a test; the vote makes
  // this branch uniform over the warp.
  const bool whole = lane.see_all(first_key, kTileKeys);
  const int key = first_key + 4 * Lane().t;
#pragma unroll
  for (int i = 0; i < 2 * kLaneScores; ++i) {
    const int r = i / kLaneScores;
    const int j = i % kLaneScores;
    float& score = score_at(scores, r, j);
    const bool seen = whole || lane.sees(r, key + j / 4 * 16 + j % 4);
    // The soft cap needs the score itself, so that log2(e) is applied after it. Without a cap both
    // factors are folded into one multiplication.
    const float value = call.softcap > 0 ? call.capped(score * call.scale) * kLog2E : score * scale;
    score = seen ? value : -INFINITY;
  }
}

// Multiplies the probabilities by their dropout factors, after they were added to the row sum:
// dropout applies to normalised probabilities. One Philox call serves the four neighbouring keys of
// a lane.
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

// Shared memory: q of the block [128, D], then two stages each of k and v [64, D]. 48 KiB for D =
// 64, so that two blocks fit on an SM, and 96 KiB for D = 128.
template <class T, int kHead>
struct ForwardShared {
  static constexpr std::size_t kBytes = Tile<T, kHead>::bytes(kBlockQueries + 4 * kTileKeys);
  __device__ explicit ForwardShared(SharedLayout layout)
      : q(layout.tile<T, kHead>(kBlockQueries)),
        k(layout.tile<T, kHead>(2 * kTileKeys)),
        v(layout.tile<T, kHead>(2 * kTileKeys)) {}
  Tile<T, kHead> q, k, v;
};

// A warp's 16 queries: q as A fragments, the running softmax, and the output as accumulators [16,
// D].
template <class T, int kHead>
struct ForwardWarp {
  __device__ explicit ForwardWarp(const LaneQueries& queries) : lane(queries) {}

  // Adds one tile of 64 keys.
  __device__ void add_tile(const AttentionCall<T>& call, int64_t sample, int64_t h, int first_key,
                           const Tile<T, kHead>& k, const Tile<T, kHead>& v) {
    // The condition is the same for all lanes. Skipping is safe: there is no block barrier in here.
    if (!lane.see_any(first_key, kTileKeys)) return;
    Scores scores = {};
    // S = q k^T, 16 keys at a time.
#pragma unroll
    for (int j = 0; j < kTileKeys / 16; ++j) multiply_by_rows(scores[j], q, k, 16 * j);
    float rescale[2];
    mask_scores(scores, call, lane, first_key);
    softmax.fold(scores, rescale);
    if (call.dropout.on) drop_scores(scores, call.dropout, sample, h, lane, first_key);
      // o = a o; elements 0 and 1 of a fragment belong to row g, 2 and 3 to row g + 8.
#pragma unroll
    for (int i = 0; i < kHead / 8 * 4; ++i) out[i / 4][i % 4] *= rescale[i % 4 / 2];
      // o += P v, 16 keys at a time, with P rounded straight from its accumulators.
#pragma unroll
    for (int j = 0; j < kTileKeys / 16; ++j) {
      std::uint32_t p[4];
      round_to_rows<T>(p, scores[j]);
      multiply_by_columns(out, p, v, 16 * j);
    }
  }

  // Normalises and writes o through the warp's own rows of the q tile, and lse [S]. No block
  // barrier is needed: only this warp reads and writes these rows, and its q has been in registers
  // since the start. A query without keys gets o = 0 and lse = -inf.
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
    // The rows were written by other lanes of this warp.
    __syncwarp();
    write_rows(o, first, tile, row0, row0 + 16, Lane().index, kWarp);
  }

  LaneQueries lane;
  RunningSoftmax softmax;
  std::uint32_t q[kHead / 16][4];
  float out[kHead / 8][4] = {};
};

// 256 threads per block. D = 64 is bounded to 128 registers, so that two blocks share an SM; D =
// 128 needs up to 255 registers for q and o and runs one.
template <class T, int kHead>
__global__ void __launch_bounds__(kTileThreads, kHead == 64 ? 2 : 1)
    tensor_forward_kernel(AttentionCall<T> call, Heads<T> o, float* lse) {
  // Block coordinates; blocks with the most keys come first.
  const int queries = static_cast<int>(call.seen.queries);
  const BlockPlace at((queries - 1) / kBlockQueries + 1, call.heads, call.batch, true);
  const int first = at.tile * kBlockQueries;
  const int row0 = 16 * Lane().warp;
  const ForwardShared<T, kHead> shared({shared_memory()});
  const KeyStream<T, kHead> keys = keys_for(call, at, first, shared.k, shared.v);
  // q and the first tile of k and v are in flight together, while visibility is computed.
  start_queries<kBlockQueries>(shared.q, {call.q, at.b, at.h, queries}, first);
  keys.start(keys.tiles.begin);
  const int64_t sample = call.dropout.on ? call.dropout.samples[at.b] : 0;
  ForwardWarp<T, kHead> warp(LaneQueries(call.seen, at.b, first + row0));
  // q must have arrived for all threads before ldmatrix reads rows that others copied.
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
    // One block per 128 queries, sample and head.
    const int64_t blocks = (q.dim(0) + kBlockQueries - 1) / kBlockQueries * q.dim(1) * q.dim(2);
    launch(stream, "attention_forward",
           {blocks, dim3(kTileThreads), ForwardShared<T, kHead>::kBytes},
           tensor_forward_kernel<T, kHead>, AttentionCall<T>(q, k, v, spec), heads_of<T>(o),
           lse.data<float>());
  });
}

}  // namespace tessera::cuda
