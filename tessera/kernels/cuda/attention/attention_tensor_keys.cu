// The second pass of attention backward by tensor cores: dk and dv of a block of 64 keys.
// Probabilities are recomputed from the log-sum-exp; delta comes from the first pass.
#include "tessera/kernels/cuda/attention/attention_gradients.cuh"
#include "tessera/kernels/cuda/attention/attention_kernels.h"
#include "tessera/kernels/cuda/launch.cuh"

namespace tessera::cuda {
namespace {

using std::int64_t;

// k and v of the block, two tiles each of q and d_o with lse and delta, and M P and dS of one tile,
// [64 queries, 64 keys].
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
// tiles of what sees any of them.
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

  __device__ void start(int i) const {
    if (i >= count) return;
    const int64_t queries = call.seen.queries;
    const int first = first_query(i);
    start_queries<kTileQueries>(shared.q.stage(kTileQueries, i % 2),
                                {call.q, at.b, head(i), queries}, first);
    start_queries<kTileQueries>(shared.d_o.stage(kTileQueries, i % 2),
                                {upstream.d_o, at.b, head(i), queries}, first);
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

// Fills p and d_scores from one stage of the stream: each warp 16 queries and 32 keys.
template <class T, int kHead>
__device__ void fill_scores(const QueryStream<T, kHead>& stream, int64_t sample, int i,
                            int first_key) {
  const AttentionCall<T>& call = stream.call;
  const KeyPassShared<T, kHead>& shared = stream.shared;
  const int row0 = 16 * (Lane().warp % 4);
  const int low = row0 + Lane().g;
  LaneGradients lane{LaneQueries(call.seen, stream.at.b, stream.first_query(i) + row0), {}, {}};
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    lane.lse[r] = shared.lse[i % 2 * kTileQueries + low + 8 * r] * kLog2E;
    lane.delta[r] = shared.delta[i % 2 * kTileQueries + low + 8 * r];
  }
  const bool any = lane.queries.see_any(first_key, kTileKeys);
  const bool whole = lane.queries.see_all(first_key, kTileKeys);
  std::uint32_t q[kHead / 16][4];
  std::uint32_t d_o[kHead / 16][4];
  load_rows(q, shared.q.stage(kTileQueries, i % 2), row0);
  load_rows(d_o, shared.d_o.stage(kTileQueries, i % 2), row0);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int j = Lane().warp / 4 * 2 + half;
    float scores[2][4] = {};
    float products[2][4] = {};
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

// The gradients of 16 keys and half of the channels, which is a warp's part.
template <int kHead>
struct KeyPassSums {
  template <class T>
  __device__ void add(const KeyPassShared<T, kHead>& shared, int stage) {
#pragma unroll
    for (int j = 0; j < kTileQueries / 16; ++j) {
      std::uint32_t a[4];
      load_columns(a, shared.p, 16 * j, row0 / 8);
      multiply_by_columns(dv, a, shared.d_o.stage(kTileQueries, stage), 16 * j, chunk0);
      load_columns(a, shared.d_scores, 16 * j, row0 / 8);
      multiply_by_columns(dk, a, shared.q.stage(kTileQueries, stage), 16 * j, chunk0);
    }
  }
  // Into the tiles of k and v, keys in their own order.
  template <class T>
  __device__ void store(const KeyPassShared<T, kHead>& shared, float scale) const {
    store_sums(shared.k, low(), high(), chunk0, dk, scale, scale);
    store_sums(shared.v, low(), high(), chunk0, dv, 1, 1);
  }
  // Straight to the gradients of the keys from `first` on.
  template <class G>
  __device__ void contribute(const HeadRows<G>& to_dk, const HeadRows<G>& to_dv, int first,
                             float scale, bool add) const {
    contribute_sums(to_dk, first + low(), first + high(), 8 * chunk0, dk, scale, add);
    contribute_sums(to_dv, first + low(), first + high(), 8 * chunk0, dv, 1, add);
  }
  __device__ int low() const { return key_of_row(row0 + Lane().g); }
  __device__ int high() const { return key_of_row(row0 + Lane().g + 8); }
  int row0 = 16 * (Lane().warp % 4);
  int chunk0 = Lane().warp / 4 * (kHead / 16);
  float dk[kHead / 16][4] = {};
  float dv[kHead / 16][4] = {};
};

template <class T, class G, int kHead>
__global__ void __launch_bounds__(kTileThreads, kHead == 64 ? 2 : 1)
    tensor_key_gradient_kernel(AttentionCall<T> call, Upstream<T> upstream, Heads<G> dk,
                               Heads<G> dv, bool add) {
  const int keys = static_cast<int>(call.seen.keys);
  const KeyTiles tiles(call.seen, {0, keys});
  const BlockPlace at(tiles.end, call.heads / call.group, call.batch, false);
  const int first_key = tiles.first_key(at.tile);
  const KeyPassShared<T, kHead> shared({shared_memory()});
  const QueryStream<T, kHead> stream(
      call, upstream, shared, at,
      call.seen.queries_of(at.b, Span{max(first_key, 0), min(first_key + kTileKeys, keys)}));
  start_keys(shared.k, {call.k, at.b, at.h, keys}, first_key);
  start_keys(shared.v, {call.v, at.b, at.h, keys}, first_key);
  stream.start(0);
  const int64_t sample = call.dropout.on ? call.dropout.samples[at.b] : 0;
  KeyPassSums<kHead> sums;
  for (int i = 0; i < stream.count; ++i) {
    wait_for_copies();
    __syncthreads();  // the tile is there, and nobody reads the one before it any more
    stream.start(i + 1);
    fill_scores(stream, sample, i, first_key);
    __syncthreads();
    sums.add(shared, i % 2);
  }
  wait_for_copies();
  const HeadRows<G> to_dk(dk, at.b, at.h, keys);
  const HeadRows<G> to_dv(dv, at.b, at.h, keys);
  if constexpr (std::is_same_v<T, G>) {
    if (!add) {
      __syncthreads();  // nobody reads k and v any more
      sums.store(shared, call.scale);
      __syncthreads();
      const int worker = static_cast<int>(threadIdx.x);
      write_rows(to_dk, first_key, shared.k, 0, kTileKeys, worker, kTileThreads);
      write_rows(to_dv, first_key, shared.v, 0, kTileKeys, worker, kTileThreads);
      return;
    }
  }
  sums.contribute(to_dk, to_dv, first_key, call.scale, add);
}

}  // namespace

void attention_key_gradient_tiles(Stream& stream, const View& dk, const View& dv,
                                  const ConstView& d_o, const ConstView& q, const ConstView& k,
                                  const ConstView& v, const ConstView& o, const ConstView& lse,
                                  const AttentionSpec& spec, const Workspace& delta, bool add) {
  if (k.dim(0) == 0) return;
  dispatch_tiles(q, [&]<class T, int kHead>(TypeTag<T>, std::integral_constant<int, kHead>) {
    const int64_t tiles = (k.dim(0) + (spec.kv_start & 3) - 1) / kTileKeys + 1;
    dispatch_gradient<T>(dk, [&]<class G>(TypeTag<G>) {
      launch(stream, "attention_backward",
             {tiles * k.dim(1) * k.dim(2), dim3(kTileThreads), KeyPassShared<T, kHead>::kBytes},
             tensor_key_gradient_kernel<T, G, kHead>, AttentionCall<T>(q, k, v, spec),
             upstream_of<T>(d_o, o, lse, delta), heads_of<G>(dk), heads_of<G>(dv), add);
    });
  });
}

}  // namespace tessera::cuda
