// Attention backward for any type and shape, in two passes that recompute the probabilities from
// the log-sum-exp: a warp per query for dq, then a warp per key for dk and dv. With P the
// probabilities, M the dropout factors, delta = sum over channels of d_o o:
//
//   dS = P (M (d_o v^T) - delta),  dq = scale dS k,  dk = scale dS^T q,  dv = (M P)^T d_o
//
// where dS is multiplied by the slope of the soft cap, if there is one.
#include "tessera/kernels/cuda/attention/attention_kernels.h"
#include "tessera/kernels/cuda/attention/attention_rows.cuh"

namespace tessera::cuda {
namespace {

using std::int64_t;

// One probability and what flows back through it.
template <class A>
struct PairGradient {
  A dropped;  ///< M P
  A d_score;  ///< dS
};

// q (scaled) and d_o of a query, k and v of a key.
template <class T, class A = Accumulator<T>>
__device__ PairGradient<A> pair_gradient(const AttentionCall<T>& call, const A* q, const A* d_o,
                                         const A* k, const A* v, A lse, A delta, A factor) {
  const A score = call.capped(dot(q, k, call.d));
  const A p = exp(score - lse);
  return {p * factor, p * (dot(d_o, v, call.e) * factor - delta) * call.cap_slope(score)};
}

template <class T, class G, int kPerLane>
__global__ void __launch_bounds__(kAttentionThreads)
    query_gradient_kernel(AttentionCall<T> call, Upstream<T> upstream, Heads<G> dq, bool add) {
  using A = Accumulator<T>;
  extern __shared__ __align__(16) unsigned char memory[];
  const int d = call.d;
  const int e = call.e;
  const Place at(call.seen.queries, call.heads);
  const SharedRows<A> shared(memory, at, d, e);
  const int64_t kv = at.h / call.group;
  const Span mine = at.valid ? call.seen.keys_of(at.b, at.row) : Span{0, 0};
  const Span all = call.seen.keys_of(at.b, Span{at.first, at.last});
  const int64_t index = (at.b * call.heads + at.h) * call.seen.queries + at.row;
  A lse = 0;
  A delta = 0;
  if (at.valid) {
    const T* out = upstream.o.row(at.row, at.b, at.h);
    const T* d_out = upstream.d_o.row(at.row, at.b, at.h);
    load_row(shared.row1, call.q.row(at.row, at.b, at.h), at.lane, d, call.scale);
    load_row(shared.row2, d_out, at.lane, e);
    for (int c = at.lane; c < e; c += kWarp) delta += load(out[c]) * load(d_out[c]);
    delta = warp_sum(delta);
    lse = upstream.lse[index];
    if (at.lane == 0) upstream.delta[index] = delta;
  }

  RowSum<A, kPerLane> sum;
  for (int64_t first = all.begin; first < all.end; first += kWarp) {
    const Span tile{first, min(first + kWarp, all.end)};
    __syncthreads();
    load_tile(shared.tile1, shared.stride1, call.k, at, kv, tile, d);
    load_tile(shared.tile2, shared.stride2, call.v, at, kv, tile, e);
    __syncthreads();
    const Span part{max(tile.begin, mine.begin), min(tile.end, mine.end)};
    const int64_t key = first + at.lane;
    A d_score = 0;
    if (part.holds(key))
      d_score =
          pair_gradient(call, shared.row1, shared.row2, shared.tile1 + at.lane * shared.stride1,
                        shared.tile2 + at.lane * shared.stride2, lse, delta,
                        call.dropout.factor(at.b, at.h, at.row, key))
              .d_score;
    for (int64_t j = part.begin; j < part.end; ++j) {
      const int lane = static_cast<int>(j - first);
      sum.add(__shfl_sync(kAllLanes, d_score, lane), shared.tile1 + lane * shared.stride1, at.lane,
              d);
    }
  }
  if (at.valid) sum.write(dq.row(at.row, at.b, at.h), at.lane, d, call.scale, add);
}

template <class T, class G, int kPerLane>
__global__ void __launch_bounds__(kAttentionThreads)
    key_gradient_kernel(AttentionCall<T> call, Upstream<T> upstream, Heads<G> dk, Heads<G> dv,
                        bool add) {
  using A = Accumulator<T>;
  extern __shared__ __align__(16) unsigned char memory[];
  const int d = call.d;
  const int e = call.e;
  const Place at(call.seen.keys, call.heads / call.group);
  const SharedRows<A> shared(memory, at, d, e);
  const Span mine = at.valid ? call.seen.queries_of(at.b, at.row) : Span{0, 0};
  const Span all = call.seen.queries_of(at.b, Span{at.first, at.last});
  if (at.valid) {
    load_row(shared.row1, call.k.row(at.row, at.b, at.h), at.lane, d);
    load_row(shared.row2, call.v.row(at.row, at.b, at.h), at.lane, e);
  }

  RowSum<A, kPerLane> dk_sum;
  RowSum<A, kPerLane> dv_sum;
  for (int64_t h = at.h * call.group; h < (at.h + 1) * call.group; ++h)
    for (int64_t first = all.begin; first < all.end; first += kWarp) {
      const Span tile{first, min(first + kWarp, all.end)};
      __syncthreads();
      load_tile(shared.tile1, shared.stride1, call.q, at, h, tile, d, call.scale);
      load_tile(shared.tile2, shared.stride2, upstream.d_o, at, h, tile, e);
      __syncthreads();
      const Span part{max(tile.begin, mine.begin), min(tile.end, mine.end)};
      const int64_t query = first + at.lane;
      PairGradient<A> pair{0, 0};
      if (part.holds(query)) {
        const int64_t index = (at.b * call.heads + h) * call.seen.queries + query;
        pair = pair_gradient(call, shared.tile1 + at.lane * shared.stride1,
                             shared.tile2 + at.lane * shared.stride2, shared.row1, shared.row2,
                             upstream.lse[index], upstream.delta[index],
                             call.dropout.factor(at.b, h, query, at.row));
      }
      for (int64_t i = part.begin; i < part.end; ++i) {
        const int lane = static_cast<int>(i - first);
        dk_sum.add(__shfl_sync(kAllLanes, pair.d_score, lane), shared.tile1 + lane * shared.stride1,
                   at.lane, d);
        dv_sum.add(__shfl_sync(kAllLanes, pair.dropped, lane), shared.tile2 + lane * shared.stride2,
                   at.lane, e);
      }
    }
  if (!at.valid) return;
  dk_sum.write(dk.row(at.row, at.b, at.h), at.lane, d, A(1), add);
  dv_sum.write(dv.row(at.row, at.b, at.h), at.lane, e, A(1), add);
}

}  // namespace

void attention_backward_rows(Stream& stream, const View& dq, const View& dk, const View& dv,
                             const ConstView& d_o, const ConstView& q, const ConstView& k,
                             const ConstView& v, const ConstView& o, const ConstView& lse,
                             const AttentionSpec& spec, const Workspace& delta,
                             const AttentionAccumulate& accumulate) {
  constexpr const char* op = "attention_backward";
  dispatch_float(q.dtype(), op, [&]<class T>(TypeTag<T>) {
    using A = Accumulator<T>;
    const AttentionCall<T> call(q, k, v, spec);
    const Upstream<T> upstream = upstream_of<T>(d_o, o, lse, delta);
    const auto grid = [&](int64_t rows, int64_t heads) {
      return Grid{attention_blocks(rows, heads, q.dim(1)), dim3(kAttentionThreads),
                  SharedRows<A>::bytes(q.dim(3), v.dim(3))};
    };
    const auto start = [&]<int kPerLane>(std::integral_constant<int, kPerLane>) {
      dispatch_gradient<T>(dq, [&]<class G>(TypeTag<G>) {
        launch(stream, op, grid(q.dim(0), q.dim(2)), query_gradient_kernel<T, G, kPerLane>, call,
               upstream, heads_of<G>(dq), accumulate.dq);
      });
      dispatch_gradient<T>(dk, [&]<class G>(TypeTag<G>) {
        launch(stream, op, grid(k.dim(0), k.dim(2)), key_gradient_kernel<T, G, kPerLane>, call,
               upstream, heads_of<G>(dk), heads_of<G>(dv), accumulate.dk_dv);
      });
    };
    dispatch_head_size(op, q.dim(3), v.dim(3), start);
  });
}

}  // namespace tessera::cuda
