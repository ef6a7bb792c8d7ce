// Second pass of attention backward on tensor cores: dk and dv. Formulas as in
// attention_backward.cu; P is recomputed from the log-sum-exp, and delta [B, H, S] comes from the
// first pass.
//
// Grid: one block of 8 warps per 64 keys of one key/value head. The block keeps its k and v in
// shared memory while q, d_o, lse and delta stream past in tiles of 64 queries, for all query heads
// that share the keys (grouped-query attention), one head after another. Per tile there are two
// phases:
//
//   1. S = q k^T and d_o v^T, from them M P and dS, rounded to 16 bits into shared memory;
//      warp w computes queries 16 (w % 4) ... + 15 and keys 32 (w / 4) ... + 31
//   2. dv += (M P)^T d_o and dk += dS^T q;
//      warp w sums keys 16 (w % 4) ... + 15 and half w / 4 of the channels
//
// P and dS pass through shared memory since phase 2 needs them transposed and for all 64 queries.
// The sums over queries and heads are f32 in registers, in ascending order and without atomics, so
// results are bitwise reproducible.
#include "tessera/kernels/cuda/attention/attention_gradients.cuh"
#include "tessera/kernels/cuda/attention/attention_kernels.h"
#include "tessera/kernels/cuda/launch.cuh"

namespace tessera::cuda {
namespace {

using std::int64_t;

// Shared memory: k and v of the block [64, D]; two stages each of q and d_o [64, D]; M P and dS of
// one tile [64 queries, 64 keys]; two stages each of lse and delta [64]. 65 KiB for D = 64 and 113
// KiB for D = 128.
template <class T, int kHead>
struct KeyPassShared {
  static constexpr std::size_t kBytes = Tile<T, kHead>::bytes(2 * kTileKeys + 4 * kTileQueries) +
                                        2 * Tile<T, kTileKeys>::bytes(kTileQueries) +
                                        4 * kTileQueries * sizeof(float);
  __device__ explicit KeyPassShared(SharedLayout layout)
      : k(layout.tile<T, kHead>(kTileKeys)),
        v(layout.tile<T, kHead>(kTileKeys)),
        q(layout.tile<T, kHead>(2 * kTileQueries)),
        d_o(layout.tile<T, kHead>(2 * kTileQueries)),
        p(layout.tile<T, kTileKeys>(kTileQueries)),
        d_scores(layout.tile<T, kTileKeys>(kTileQueries)),
        lse(layout.take<float>(2 * kTileQueries)),
        delta(layout.take<float>(2 * kTileQueries)) {}
  Tile<T, kHead> k, v, q, d_o;
  Tile<T, kTileKeys> p, d_scores;
  float *lse, *delta;
};

// The queries that stream past a block of keys: for each head that shares the keys, in order, the
// tiles that cover the span of queries that see any of the keys. Step i is tile i % per_head of
// head i / per_head of the group. A span without queries gives count = 0.
template <class T, int kHead>
struct QueryStream {
  __device__ QueryStream(const AttentionCall<T>& attention, const Upstream<T>& gradients,
                         const KeyPassShared<T, kHead>& memory, const BlockPlace& place, Span seen)
      : call(attention),
        upstream(gradients),
        shared(memory),
        at(place),
        begin(static_cast<int>(seen.begin)),
        per_head(static_cast<int>(seen.end - seen.begin + kTileQueries - 1) / kTileQueries),
        count(per_head * static_cast<int>(call.group)) {}

  __device__ int first_query(int i) const { return begin + i % per_head * kTileQueries; }
  __device__ int64_t head(int i) const { return at.h * call.group + i / per_head; }

  // Starts the copies of step i into stage i % 2; does nothing behind the last step.
  __device__ void start(int i) const {
    if (i >= count) return;
    const int64_t queries = call.seen.queries;
    const int first = first_query(i);
    start_queries<kTileQueries>(shared.q.stage(kTileQueries, i % 2),
                                {call.q, at.b, head(i), queries}, first);
    start_queries<kTileQueries>(shared.d_o.stage(kTileQueries, i % 2),
                                {upstream.d_o, at.b, head(i), queries}, first);
    // lse and delta: one 4-byte copy per thread, threads 0-63 and 64-127. Queries behind the end
    // get 0; they see no key, so that nothing is computed from it.
    const int row = static_cast<int>(threadIdx.x) % kTileQueries;
    const int64_t index = (at.b * call.heads + head(i)) * queries + first + row;
    const int slot = i % 2 * kTileQueries + row;
    if (threadIdx.x < kTileQueries)
      copy_async<4>(shared.lse + slot, upstream.lse + index, first + row < queries);
    else if (threadIdx.x < 2 * kTileQueries)
      copy_async<4>(shared.delta + slot, upstream.delta + index, first + row < queries);
  }

  const AttentionCall<T>& call;
  const Upstream<T>& upstream;
  const KeyPassShared<T, kHead>& shared;
  const BlockPlace& at;
  int begin, per_head, count;
};

// Phase 1: fills p and d_scores from stage i % 2. Each warp computes 16 queries and 32 keys, 16 at
// a time. Columns of p and d_scores are in the order of the tile's rows of keys (row_of_key).
template <class T, int kHead>
__device__ void fill_scores(const QueryStream<T, kHead>& stream, int64_t sample, int i,
                            int first_key) {
  const AttentionCall<T>& call = stream.call;
  const KeyPassShared<T, kHead>& shared = stream.shared;
  // Warps w and w + 4 take the same 16 queries and different keys.
  const int row0 = 16 * (Lane().warp % 4);
  const int low = row0 + Lane().g;
  LaneGradients lane{LaneQueries(call.seen, stream.at.b, stream.first_query(i) + row0), {}, {}};
  // exp2 needs lse in units of log2.
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    lane.lse[r] = shared.lse[i % 2 * kTileQueries + low + 8 * r] * kLog2E;
    lane.delta[r] = shared.delta[i % 2 * kTileQueries + low + 8 * r];
  }
  // Uniform over the warp, as the mma instructions require.
  const bool any = lane.queries.see_any(first_key, kTileKeys);
  const bool whole = lane.queries.see_all(first_key, kTileKeys);
  // q and d_o as A fragments: read once from shared memory for both halves of the keys.
  std::uint32_t q[kHead / 16][4];
  std::uint32_t d_o[kHead / 16][4];
  load_rows(q, shared.q.stage(kTileQueries, i % 2), row0);
  load_rows(d_o, shared.d_o.stage(kTileQueries, i % 2), row0);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    // Group j of 16 keys of the tile; warps 0-3 take groups 0 and 1, warps 4-7 groups 2 and 3.
    const int j = Lane().warp / 4 * 2 + half;
    float scores[2][4] = {};
    float products[2][4] = {};
    // A warp that sees none of the keys still stores zeros: phase 2 reads the whole tile.
    if (any) {
      multiply_by_rows(scores, q, shared.k, 16 * j);
      multiply_by_rows(products, d_o, shared.v, 16 * j);
      score_gradients(scores, products, call, sample, stream.head(i), lane,
                      first_key + 16 * j + 4 * Lane().t, whole);
    }
    store_sums(shared.p, low, low + 8, 2 * j, scores, 1, 1);
    store_sums(shared.d_scores, low, low + 8, 2 * j, products, 1, 1);
  }
}

// Phase 2: the f32 gradients of 16 keys and half of the channels, the part of one warp. dk and dv
// [16, D / 2] are kHead / 16 accumulator fragments each.
template <int kHead>
struct KeyPassSums {
  // Adds one tile of queries, 16 at a time: the transposed P and dS are the left operands, d_o and
  // q the right ones.
  template <class T>
  __device__ void add(const KeyPassShared<T, kHead>& shared, int stage) {
    // Fully unrolled, so that the loads of one step overlap the products of the step before.
#pragma unroll
    for (int j = 0; j < kTileQueries / 16; ++j) {
      std::uint32_t a[4];
      load_columns(a, shared.p, 16 * j, row0 / 8);
      multiply_by_columns(dv, a, shared.d_o.stage(kTileQueries, stage), 16 * j, chunk0);
      load_columns(a, shared.d_scores, 16 * j, row0 / 8);
      multiply_by_columns(dk, a, shared.q.stage(kTileQueries, stage), 16 * j, chunk0);
    }
  }
  // Rounds the gradients into the tiles of k and v, which are no longer needed, with keys back in
  // their own order. dk = scale dS^T q; q is not scaled in shared memory, so the factor is applied
  // here.
  template <class T>
  __device__ void store(const KeyPassShared<T, kHead>& shared, float scale) const {
    store_sums(shared.k, low(), high(), chunk0, dk, scale, scale);
    store_sums(shared.v, low(), high(), chunk0, dv, 1, 1);
  }
  // Writes the f32 sums directly to the gradients of the keys from `first` on.
  template <class G>
  __device__ void contribute(const HeadRows<G>& to_dk, const HeadRows<G>& to_dv, int first,
                             float scale, bool add) const {
    contribute_sums(to_dk, first + low(), first + high(), 8 * chunk0, dk, scale, add);
    contribute_sums(to_dv, first + low(), first + high(), 8 * chunk0, dv, 1, add);
  }
  // Rows g and g + 8 of the fragment are rows of the tile; these are the keys they stand for.
  __device__ int low() const { return key_of_row(row0 + Lane().g); }
  __device__ int high() const { return key_of_row(row0 + Lane().g + 8); }
  // Keys and channels of this warp: rows from row0 on, and half of the D / 8 chunks of 8 channels.
  int row0 = 16 * (Lane().warp % 4);
  int chunk0 = Lane().warp / 4 * (kHead / 16);
  float dk[kHead / 16][4] = {};
  float dv[kHead / 16][4] = {};
};

// Bounded to 128 registers for D = 64, so that two blocks share an SM.
template <class T, class G, int kHead>
__global__ void __launch_bounds__(kTileThreads, kHead == 64 ? 2 : 1)
    tensor_key_gradient_kernel(AttentionCall<T> call, Upstream<T> upstream, Heads<G> dk,
                               Heads<G> dv, bool add) {
  const int keys = static_cast<int>(call.seen.keys);
  // All tiles of the keys; the first may start up to three rows before key 0 (KeyTiles).
  const KeyTiles tiles(call.seen, {0, keys});
  const BlockPlace at(tiles.end, call.heads / call.group, call.batch, false);
  const int first_key = tiles.first_key(at.tile);
  const KeyPassShared<T, kHead> shared({shared_memory()});
  // Only queries that see one of the block's keys.
  const QueryStream<T, kHead> stream(
      call, upstream, shared, at,
      call.seen.queries_of(at.b, Span{max(first_key, 0), min(first_key + kTileKeys, keys)}));
  // k and v of the block and the first tile of queries are in flight together.
  start_keys(shared.k, {call.k, at.b, at.h, keys}, first_key);
  start_keys(shared.v, {call.v, at.b, at.h, keys}, first_key);
  stream.start(0);
  const int64_t sample = call.dropout.on ? call.dropout.samples[at.b] : 0;
  KeyPassSums<kHead> sums;
  for (int i = 0; i < stream.count; ++i) {
    wait_for_copies();
    __syncthreads();  // tile i has arrived; all warps are done with phase 2 of tile i - 1
    // The copies of the next tile overlap with both phases of this one.
    stream.start(i + 1);
    fill_scores(stream, sample, i, first_key);
    // P and dS of all warps must be complete before any warp reads them transposed.
    __syncthreads();
    sums.add(shared, i % 2);
  }
  // Without any query the copies of k and v are still in flight here.
  wait_for_copies();
  const HeadRows<G> to_dk(dk, at.b, at.h, keys);
  const HeadRows<G> to_dv(dv, at.b, at.h, keys);
  if constexpr (std::is_same_v<T, G>) {
    if (!add) {
      __syncthreads();  // other warps may still read k and v
      sums.store(shared, call.scale);
      // Rows of the tile were written by several warps.
      __syncthreads();
      // All 256 threads write 16-byte chunks of whole rows.
      const int worker = static_cast<int>(threadIdx.x);
      write_rows(to_dk, first_key, shared.k, 0, kTileKeys, worker, kTileThreads);
      write_rows(to_dv, first_key, shared.v, 0, kTileKeys, worker, kTileThreads);
      return;
    }
  }
  // Accumulated or f32 gradients: straight from registers, without rounding to T first.
  sums.contribute(to_dk, to_dv, first_key, call.scale, add);
}

}  // namespace

void attention_key_gradient_tiles(Stream& stream, const View& dk, const View& dv,
                                  const ConstView& d_o, const ConstView& q, const ConstView& k,
                                  const ConstView& v, const ConstView& o, const ConstView& lse,
                                  const AttentionSpec& spec, const Workspace& delta, bool add) {
  if (k.dim(0) == 0) return;
  dispatch_tiles(q, [&]<class T, int kHead>(TypeTag<T>, std::integral_constant<int, kHead>) {
    // The tile count of KeyTiles: the first tile is shifted by kv_start % 4.
    const int64_t tiles = (k.dim(0) + (spec.kv_start & 3) - 1) / kTileKeys + 1;
    dispatch_type_or_accumulator<T>(dk.dtype(), [&]<class G>(TypeTag<G>) {
      launch(stream, "attention_backward",
             {tiles * k.dim(1) * k.dim(2), dim3(kTileThreads), KeyPassShared<T, kHead>::kBytes},
             tensor_key_gradient_kernel<T, G, kHead>, AttentionCall<T>(q, k, v, spec),
             upstream_of<T>(d_o, o, lse, delta), heads_of<G>(dk), heads_of<G>(dv), add);
    });
  });
}

}  // namespace tessera::cuda
