// Attention backward for every float type, stride and head size up to 256, in two passes that
// recompute the probabilities from the log-sum-exp: a warp per query for dq, then a warp per key
// for dk and dv.
//
// With S the scaled scores, P = e^(S - lse) the probabilities, M the dropout factors (0 or 1 / (1 -
// p)), products of equal shape taken elementwise, and delta = sum over channels of d_o o for each
// query:
//
//   dS = P (M (d_o v^T) - delta),  dq = scale dS k,  dk = scale dS^T q,  dv = (M P)^T d_o
//
// dS is also multiplied by the slope of the soft cap, if there is one. delta equals the sum over
// keys of P M (d_o v^T), so that the softmax's row sum needs no pass of its own (FlashAttention,
// Dao et al., 2022). Two passes compute the scores twice but need no atomics: each output element
// is summed by one warp in a fixed order.
//
// Shapes: q, dq [S, B, H, d]; k, dk [T, B, K, d]; v, dv [T, B, K, e]; o, d_o [S, B, H, e]; lse and
// delta acc [B, H, S]. Blocks and tiles as in attention_rows.cuh.
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

// q is scaled, so that its product with k is the score as the softmax takes it. q and d_o belong to
// the query, k and v to the key; all are rows in shared memory.
template <class Variant, class T, class A = Accumulator<T>>
__device__ PairGradient<A> pair_gradient(const AttentionCall<T>& call, const A* q, const A* d_o,
                                         const A* k, const A* v, A lse, A delta, A factor) {
  const A score = Variant::capped(call, dot(q, k, call.d));
  const A p = exp(score - lse);
  A d_score = p * (dot(d_o, v, Variant::value_size(call)) * factor - delta);
  if constexpr (Variant::kGeneral) d_score *= call.cap_slope(score);
  return {p * factor, d_score};
}

// First pass: dq of one query per warp, and its delta for the second pass.
template <class T, class G, class Variant>
__global__ void __launch_bounds__(kAttentionThreads)
    query_gradient_kernel(AttentionCall<T> call, Upstream<T> upstream, Heads<G> dq, bool add) {
  using A = Accumulator<T>;
  extern __shared__ __align__(16) unsigned char memory[];
  const int d = call.d;
  const int e = Variant::value_size(call);
  const Place at(call.seen.queries, call.heads);
  const SharedRows<A> shared(memory, at, d, e);
  const int64_t kv = at.h / call.group;
  // Own keys and keys of the whole block, as in the forward kernel.
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
    // delta: lanes add every 32nd channel, then a butterfly, an order that is always the same.
    for (int c = at.lane; c < e; c += kWarp) delta += load(out[c]) * load(d_out[c]);
    delta = warp_sum(delta);
    lse = upstream.lse[index];
    if (at.lane == 0) upstream.delta[index] = delta;
  }

  // dq of the row, in registers until the end.
  RowSum<A, Variant::kPerLane> sum;
  for (int64_t first = all.begin; first < all.end; first += kWarp) {
    // As in the forward kernel: the first barrier frees the tiles, the second completes them.
    const Span tile{first, min(first + kWarp, all.end)};
    __syncthreads();
    load_tile(shared.tile1, shared.stride1, call.k, at, kv, tile, d);
    load_tile(shared.tile2, shared.stride2, call.v, at, kv, tile, e);
    __syncthreads();
    const Span part{max(tile.begin, mine.begin), min(tile.end, mine.end)};
    // Lanes without a visible key hold dS = 0 and still take part in the shuffles below.
    const int64_t key = first + at.lane;
    A d_score = 0;
    if (part.holds(key))
      d_score = pair_gradient<Variant>(call, shared.row1, shared.row2,
                                       shared.tile1 + at.lane * shared.stride1,
                                       shared.tile2 + at.lane * shared.stride2, lse, delta,
                                       call.dropout.factor(at.b, at.h, at.row, key))
                    .d_score;
    // dq += dS k: each key's dS is broadcast to all lanes, which add their channels of that row of
    // k. For a warp whose query sees none of the tile `part` is empty and the loop does not run.
    for (int64_t j = part.begin; j < part.end; ++j) {
      const int lane = static_cast<int>(j - first);
      sum.add(__shfl_sync(kAllLanes, d_score, lane), shared.tile1 + lane * shared.stride1, at.lane,
              d);
    }
  }
  if (at.valid) sum.write(dq.row(at.row, at.b, at.h), at.lane, d, call.scale, add);
}

// Second pass: dk and dv of one key per warp. It reads delta, which the first pass wrote; both run
// on one stream.
template <class T, class G, class Variant>
__global__ void __launch_bounds__(kAttentionThreads)
    key_gradient_kernel(AttentionCall<T> call, Upstream<T> upstream, Heads<G> dk, Heads<G> dv,
                        bool add) {
  using A = Accumulator<T>;
  extern __shared__ __align__(16) unsigned char memory[];
  const int d = call.d;
  const int e = Variant::value_size(call);
  // heads / group: the grid covers key/value heads.
  const Place at(call.seen.keys, call.heads / call.group);
  const SharedRows<A> shared(memory, at, d, e);
  const Span mine = at.valid ? call.seen.queries_of(at.b, at.row) : Span{0, 0};
  // Queries that see this warp's key, and those that see any key of the block.
  const Span all = call.seen.queries_of(at.b, Span{at.first, at.last});
  if (at.valid) {
    // k is not scaled: the scale is in q, below.
    load_row(shared.row1, call.k.row(at.row, at.b, at.h), at.lane, d);
    load_row(shared.row2, call.v.row(at.row, at.b, at.h), at.lane, e);
  }

  // Two rows in registers.
  RowSum<A, Variant::kPerLane> dk_sum;
  RowSum<A, Variant::kPerLane> dv_sum;
  // Sum over the query heads of the group in order, then over tiles of queries in order.
  for (int64_t h = at.h * call.group; h < (at.h + 1) * call.group; ++h)
    for (int64_t first = all.begin; first < all.end; first += kWarp) {
      const Span tile{first, min(first + kWarp, all.end)};
      __syncthreads();
      // q is scaled here, so that dk = dS^T (scale q) needs no factor at the end.
      load_tile(shared.tile1, shared.stride1, call.q, at, h, tile, d, call.scale);
      load_tile(shared.tile2, shared.stride2, upstream.d_o, at, h, tile, e);
      __syncthreads();
      const Span part{max(tile.begin, mine.begin), min(tile.end, mine.end)};
      const int64_t query = first + at.lane;
      PairGradient<A> pair{0, 0};
      // Lane i computes the pair of query first + i and this warp's key.
      if (part.holds(query)) {
        const int64_t index = (at.b * call.heads + h) * call.seen.queries + query;
        pair = pair_gradient<Variant>(call, shared.tile1 + at.lane * shared.stride1,
                                      shared.tile2 + at.lane * shared.stride2, shared.row1,
                                      shared.row2, upstream.lse[index], upstream.delta[index],
                                      call.dropout.factor(at.b, h, query, at.row));
      }
      // Queries of the tile in order, so the sum over queries is the same in every run.
      for (int64_t i = part.begin; i < part.end; ++i) {
        const int lane = static_cast<int>(i - first);
        dk_sum.add(__shfl_sync(kAllLanes, pair.d_score, lane), shared.tile1 + lane * shared.stride1,
                   at.lane, d);
        dv_sum.add(__shfl_sync(kAllLanes, pair.dropped, lane), shared.tile2 + lane * shared.stride2,
                   at.lane, e);
      }
    }
  // Accumulated gradients are read, added in the accumulator type and rounded once.
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
    // dq may have another type (T or its accumulator) than dk and dv, which share theirs.
    const auto start = [&]<class Variant>(Variant) {
      dispatch_type_or_accumulator<T>(dq.dtype(), [&]<class G>(TypeTag<G>) {
        // The second launch reads the delta that this one writes; both are on one stream.
        launch(stream, op, grid(q.dim(0), q.dim(2)), query_gradient_kernel<T, G, Variant>, call,
               upstream, heads_of<G>(dq), accumulate.dq);
      });
      dispatch_type_or_accumulator<T>(dk.dtype(), [&]<class G>(TypeTag<G>) {
        launch(stream, op, grid(k.dim(0), k.dim(2)), key_gradient_kernel<T, G, Variant>, call,
               upstream, heads_of<G>(dk), heads_of<G>(dv), accumulate.dk_dv);
      });
    };
    dispatch_rows_variant(op, q.dim(3), v.dim(3), spec.softcap, start);
  });
}

}  // namespace tessera::cuda
