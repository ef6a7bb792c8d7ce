// First pass of attention backward on tensor cores: delta and dq. Formulas as in
// attention_backward.cu; P is recomputed from the log-sum-exp.
//
// Grid: one block of 8 warps per 128 queries of one head, as in the forward pass. A warp owns 16
// queries: q and d_o stay in registers as A fragments, dq [16, D] as f32 accumulators, while k and
// v stream past in tiles of 64 keys:
//
//   S = q k^T,  P = 2^(S - lse),  dS = P (M (d_o v^T) - delta),  dq += dS k
//
// dq is a sum over keys in ascending order within one warp, so it needs no atomics and is bitwise
// reproducible. delta f32 [B, H, S] is left in the workspace for the second pass.
#include "tessera/kernels/cuda/attention/attention_gradients.cuh"
#include "tessera/kernels/cuda/attention/attention_kernels.h"
#include "tessera/kernels/cuda/launch.cuh"
#include "tessera/kernels/cuda/vector.cuh"

namespace tessera::cuda {
namespace {

using std::int64_t;

// delta = sum over channels of o d_o, for the warp's 16 queries. D / 8 lanes share a row, 16 bytes
// each, so that a warp reads 4 rows (D = 64) or 2 rows (D = 128) at once.
template <class T, int kHead>
__device__ void sum_delta(float* delta, const HeadRows<const T>& o, const HeadRows<const T>& d_o,
                          int first) {
  constexpr int kLanes = kHead / 8;
  const int lane = Lane().index;
#pragma unroll
  for (int row = lane / kLanes; row < 16; row += kWarp / kLanes) {
    float sum = 0;
    // Rows behind the end of the sequence give delta = 0; their lanes still take part in the
    // shuffles.
    if (first + row < o.count) {
      const auto x = load_pack<8>(o.data + (first + row) * o.stride + lane % kLanes * 8);
      const auto y = load_pack<8>(d_o.data + (first + row) * d_o.stride + lane % kLanes * 8);
#pragma unroll
      for (int i = 0; i < 8; ++i) sum += load(x.at[i]) * load(y.at[i]);
    }
    // Butterfly over the lanes of a row: a fixed order, and every lane gets the sum.
#pragma unroll
    for (int step = kLanes / 2; step > 0; step /= 2) sum += __shfl_xor_sync(kAllLanes, sum, step);
    if (lane % kLanes == 0) delta[row] = sum;
  }
  // The lanes of this warp read what others of it wrote.
  __syncwarp();
}

// Shared memory: q and d_o of the block [128, D], two stages each of k and v [64, D], delta of the
// block [128]. 64.5 KiB for D = 64 and 128.5 KiB for D = 128.
template <class T, int kHead>
struct QueryPassShared {
  static constexpr std::size_t kBytes =
      Tile<T, kHead>::bytes(2 * kBlockQueries + 4 * kTileKeys) + kBlockQueries * sizeof(float);
  __device__ explicit QueryPassShared(SharedLayout layout)
      : q(layout.tile<T, kHead>(kBlockQueries)),
        d_o(layout.tile<T, kHead>(kBlockQueries)),
        k(layout.tile<T, kHead>(2 * kTileKeys)),
        v(layout.tile<T, kHead>(2 * kTileKeys)),
        delta(layout.take<float>(kBlockQueries)) {}
  Tile<T, kHead> q, d_o, k, v;
  float* delta;
};

// A warp's 16 queries and their gradients.
template <class T, int kHead>
struct QueryPassWarp {
  __device__ explicit QueryPassWarp(const LaneQueries& queries) : lane{queries, {}, {}} {}

  // Reads lse and writes delta to global memory for the second pass; both [S]. Queries behind the
  // end of the sequence keep zeros and see no key.
  __device__ void load_statistics(const float* lse, float* delta, const float* summed, int count) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int query = lane.queries.query[r];
      if (query >= count) continue;
      // In units of log2, as the recomputation of P by exp2 needs it.
      lane.lse[r] = lse[query] * kLog2E;
      lane.delta[r] = summed[Lane().g + 8 * r];
      if (Lane().t == 0) delta[query] = lane.delta[r];
    }
  }

  // Adds one tile of 64 keys, 16 at a time, which keeps only 2 x 8 f32 values of scores per lane
  // live next to q, d_o and dq.
  __device__ void add_tile(const AttentionCall<T>& call, int64_t sample, int64_t h, int first_key,
                           const Tile<T, kHead>& k, const Tile<T, kHead>& v) {
    // Uniform over the warp; skipping is safe, since there is no block barrier in here.
    if (!lane.queries.see_any(first_key, kTileKeys)) return;
    const bool whole = lane.queries.see_all(first_key, kTileKeys);
#pragma unroll
    for (int j = 0; j < kTileKeys / 16; ++j) {
      float scores[2][4] = {};
      float products[2][4] = {};
      // Both products have the same fragment layout, so dS is computed element by element.
      multiply_by_rows(scores, q, k, 16 * j);
      multiply_by_rows(products, d_o, v, 16 * j);
      score_gradients(scores, products, call, sample, h, lane, first_key + 16 * j + 4 * Lane().t,
                      whole);
      // dS is rounded to 16 bits from its accumulators, which have the layout of an A fragment.
      std::uint32_t d_scores[4];
      round_to_rows<T>(d_scores, products);
      multiply_by_columns(dq, d_scores, k, 16 * j);
    }
  }

  // Registers per lane for D = 128: 32 each for q and d_o, 64 for dq.
  LaneGradients lane;
  std::uint32_t q[kHead / 16][4];
  std::uint32_t d_o[kHead / 16][4];
  float dq[kHead / 8][4] = {};
};

// If dq has the type of q, it is rounded once on its way through shared memory, which makes 16-byte
// stores of it. If it accumulates or is f32 (G), the f32 sums go straight to global memory.
template <class T, class G, int kHead>
__global__ void __launch_bounds__(kTileThreads, kHead == 64 ? 2 : 1)
    tensor_query_gradient_kernel(AttentionCall<T> call, Upstream<T> upstream, Heads<G> dq,
                                 bool add) {
  const int queries = static_cast<int>(call.seen.queries);
  // Long blocks first: with a causal mask the last queries see the most keys.
  const BlockPlace at((queries - 1) / kBlockQueries + 1, call.heads, call.batch, true);
  const int first = at.tile * kBlockQueries;
  const int row0 = 16 * Lane().warp;
  const QueryPassShared<T, kHead> shared({shared_memory()});
  const KeyStream<T, kHead> keys = keys_for(call, at, first, shared.k, shared.v);
  // q, d_o and the first tile of k and v are in flight while delta is computed from global memory.
  const HeadRows<const T> d_o(upstream.d_o, at.b, at.h, queries);
  start_queries<kBlockQueries>(shared.q, {call.q, at.b, at.h, queries}, first);
  start_queries<kBlockQueries>(shared.d_o, d_o, first);
  keys.start(keys.tiles.begin);

  const int64_t statistics = (at.b * call.heads + at.h) * queries;
  const int64_t sample = call.dropout.on ? call.dropout.samples[at.b] : 0;
  QueryPassWarp<T, kHead> warp(LaneQueries(call.seen, at.b, first + row0));
  sum_delta<T, kHead>(shared.delta + row0, {upstream.o, at.b, at.h, queries}, d_o, first + row0);
  warp.load_statistics(upstream.lse + statistics, upstream.delta + statistics, shared.delta + row0,
                       queries);
  // Rows of q and d_o were copied by threads of other warps, too.
  wait_for_copies();
  __syncthreads();
  load_rows(warp.q, shared.q, row0);
  load_rows(warp.d_o, shared.d_o, row0);
  // The stream of keys waits for each tile and starts the copies of the next one.
  keys.run([&](int first_key, const Tile<T, kHead>& k, const Tile<T, kHead>& v) {
    warp.add_tile(call, sample, at.h, first_key, k, v);
  });
  const HeadRows<G> to(dq, at.b, at.h, queries);
  // dq = scale dS k; q is not scaled in shared memory, so the factor is applied at the end.
  const int low = row0 + Lane().g;
  if constexpr (std::is_same_v<T, G>) {
    if (!add) {  // each warp writes through its own rows of q, which it has in registers
      store_sums(shared.q, low, low + 8, 0, warp.dq, call.scale, call.scale);
      // Written by other lanes of the warp. No block barrier: no other warp uses these rows.
      __syncwarp();
      write_rows(to, first, shared.q, row0, row0 + 16, Lane().index, kWarp);
      return;
    }
  }
  contribute_sums(to, first + low, first + low + 8, 0, warp.dq, call.scale, add);
}

}  // namespace

void attention_query_gradient_tiles(Stream& stream, const View& dq, const ConstView& d_o,
                                    const ConstView& q, const ConstView& k, const ConstView& v,
                                    const ConstView& o, const ConstView& lse,
                                    const AttentionSpec& spec, const Workspace& delta, bool add) {
  dispatch_tiles(q, [&]<class T, int kHead>(TypeTag<T>, std::integral_constant<int, kHead>) {
    const int64_t blocks = (q.dim(0) + kBlockQueries - 1) / kBlockQueries * q.dim(1) * q.dim(2);
    dispatch_type_or_accumulator<T>(dq.dtype(), [&]<class G>(TypeTag<G>) {
      launch(stream, "attention_backward",
             {blocks, dim3(kTileThreads), QueryPassShared<T, kHead>::kBytes},
             tensor_query_gradient_kernel<T, G, kHead>, AttentionCall<T>(q, k, v, spec),
             upstream_of<T>(d_o, o, lse, delta), heads_of<G>(dq), add);
    });
  });
}

}  // namespace tessera::cuda
