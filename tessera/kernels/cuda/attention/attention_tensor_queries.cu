// The first pass of attention backward by tensor cores: delta, and dq of a block of 128 queries.
// Probabilities are recomputed from the log-sum-exp.
#include "tessera/kernels/cuda/attention/attention_gradients.cuh"
#include "tessera/kernels/cuda/attention/attention_kernels.h"
#include "tessera/kernels/cuda/launch.cuh"
#include "tessera/kernels/cuda/vector.cuh"

namespace tessera::cuda {
namespace {

using std::int64_t;

// delta of the warp's 16 queries: as many lanes for a row as it has packs.
template <class T, int kHead>
__device__ void sum_delta(float* delta, const HeadRows<const T>& o, const HeadRows<const T>& d_o,
                          int first) {
  constexpr int kLanes = kHead / 8;
  const int lane = Lane().index;
#pragma unroll
  for (int row = lane / kLanes; row < 16; row += kWarp / kLanes) {
    float sum = 0;
    if (first + row < o.count) {
      const auto x = load_pack<8>(o.data + (first + row) * o.stride + lane % kLanes * 8);
      const auto y = load_pack<8>(d_o.data + (first + row) * d_o.stride + lane % kLanes * 8);
#pragma unroll
      for (int i = 0; i < 8; ++i) sum += load(x.at[i]) * load(y.at[i]);
    }
#pragma unroll
    for (int step = kLanes / 2; step > 0; step /= 2) sum += __shfl_xor_sync(kAllLanes, sum, step);
    if (lane % kLanes == 0) delta[row] = sum;
  }
  __syncwarp();
}

// q and d_o of the block, two tiles each of k and v, delta of the block.
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

// A warp's 16 queries and the gradients that it sums up for them.
template <class T, int kHead>
struct QueryPassWarp {
  __device__ explicit QueryPassWarp(const LaneQueries& queries) : lane{queries, {}, {}} {}

  // Takes lse, leaves delta in global memory for the other pass; both [S].
  __device__ void load_statistics(const float* lse, float* delta, const float* summed, int count) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int query = lane.queries.query[r];
      if (query >= count) continue;
      lane.lse[r] = lse[query] * kLog2E;
      lane.delta[r] = summed[Lane().g + 8 * r];
      if (Lane().t == 0) delta[query] = lane.delta[r];
    }
  }

  __device__ void add_tile(const AttentionCall<T>& call, int64_t sample, int64_t h, int first_key,
                           const Tile<T, kHead>& k, const Tile<T, kHead>& v) {
    if (!lane.queries.see_any(first_key, kTileKeys)) return;
    const bool whole = lane.queries.see_all(first_key, kTileKeys);
#pragma unroll
    for (int j = 0; j < kTileKeys / 16; ++j) {
      float scores[2][4] = {};
      float products[2][4] = {};
      multiply_by_rows(scores, q, k, 16 * j);
      multiply_by_rows(products, d_o, v, 16 * j);
      score_gradients(scores, products, call, sample, h, lane, first_key + 16 * j + 4 * Lane().t,
                      whole);
      std::uint32_t d_scores[4];
      round_to_rows<T>(d_scores, products);
      multiply_by_columns(dq, d_scores, k, 16 * j);
    }
  }

  LaneGradients lane;
  std::uint32_t q[kHead / 16][4];
  std::uint32_t d_o[kHead / 16][4];
  float dq[kHead / 8][4] = {};
};

// In the type of the queries the gradient is rounded once, on its way through shared memory, which
// makes wide stores of it; sums go straight to where they are added.
template <class T, class G, int kHead>
__global__ void __launch_bounds__(kTileThreads, kHead == 64 ? 2 : 1)
    tensor_query_gradient_kernel(AttentionCall<T> call, Upstream<T> upstream, Heads<G> dq,
                                 bool add) {
  const int queries = static_cast<int>(call.seen.queries);
  const BlockPlace at((queries - 1) / kBlockQueries + 1, call.heads, call.batch, true);
  const int first = at.tile * kBlockQueries;
  const int row0 = 16 * Lane().warp;
  const QueryPassShared<T, kHead> shared({shared_memory()});
  const KeyStream<T, kHead> keys = keys_for(call, at, first, shared.k, shared.v);
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
  wait_for_copies();
  __syncthreads();
  load_rows(warp.q, shared.q, row0);
  load_rows(warp.d_o, shared.d_o, row0);
  keys.run([&](int first_key, const Tile<T, kHead>& k, const Tile<T, kHead>& v) {
    warp.add_tile(call, sample, at.h, first_key, k, v);
  });
  const HeadRows<G> to(dq, at.b, at.h, queries);
  const int low = row0 + Lane().g;
  if constexpr (std::is_same_v<T, G>) {
    if (!add) {  // each warp passes its results through its own rows of q
      store_sums(shared.q, low, low + 8, 0, warp.dq, call.scale, call.scale);
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
    dispatch_gradient<T>(dq, [&]<class G>(TypeTag<G>) {
      launch(stream, "attention_backward",
             {blocks, dim3(kTileThreads), QueryPassShared<T, kHead>::kBytes},
             tensor_query_gradient_kernel<T, G, kHead>, AttentionCall<T>(q, k, v, spec),
             upstream_of<T>(d_o, o, lse, delta), heads_of<G>(dq), add);
    });
  });
}

}  // namespace tessera::cuda
