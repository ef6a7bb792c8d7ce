// Attention forward for every float type, stride and head size up to 256: the fallback where
// neither cuDNN nor the tensor-core kernels apply (f32, f64, odd head sizes, d != e).
//
// q [S, B, H, d], k [T, B, K, d], v [T, B, K, e], o [S, B, H, e], lse acc [B, H, S]. A warp
// computes one query of one head with the online softmax (Milakov and Gimelshein, 2018) over tiles
// of 32 keys, one key per lane:
//
//   m' = max(m, max s),  l = l e^(m - m') + sum e^(s - m'),  o = o e^(m - m') + sum M e^(s - m') v
//
// and at the end o / l and lse = m + ln(l). M are the dropout factors; l does not include them.
#include "tessera/kernels/cuda/attention/attention_kernels.h"
#include "tessera/kernels/cuda/attention/attention_rows.cuh"

namespace tessera::cuda {
namespace {

using std::int64_t;

template <class T, class Variant>
__global__ void __launch_bounds__(kAttentionThreads)
    attention_kernel(AttentionCall<T> call, Heads<T> o, Accumulator<T>* lse) {
  using A = Accumulator<T>;
  extern __shared__ __align__(16) unsigned char memory[];
  const int d = call.d;
  const int e = Variant::value_size(call);
  const Place at(call.seen.queries, call.heads);
  const SharedRows<A> shared(memory, at, d, e);
  // Grouped-query attention: `group` query heads read one key/value head.
  const int64_t kv = at.h / call.group;
  // `mine`: the keys of this warp's query. `all`: those of the block's eight queries together,
  // which determine the tiles that the block loads; it is the same for all warps, as the barriers
  // require.
  const Span mine = at.valid ? call.seen.keys_of(at.b, at.row) : Span{0, 0};
  const Span all = call.seen.keys_of(at.b, Span{at.first, at.last});
  // q is scaled once here instead of every score.
  if (at.valid) load_row(shared.row1, call.q.row(at.row, at.b, at.h), at.lane, d, call.scale);

  A maximum = -INFINITY;
  A sum = 0;
  // The row of o that the warp sums up, not yet divided by the sum of exponentials.
  RowSum<A, Variant::kPerLane> out;
  for (int64_t first = all.begin; first < all.end; first += kWarp) {
    const Span tile{first, min(first + kWarp, all.end)};
    __syncthreads();  // all warps are done with the last tiles
    load_tile(shared.tile1, shared.stride1, call.k, at, kv, tile, d);
    load_tile(shared.tile2, shared.stride2, call.v, at, kv, tile, e);
    __syncthreads();
    // Warp-uniform: a warp whose query sees none of the tile waits at the next barrier.
    const Span part{max(tile.begin, mine.begin), min(tile.end, mine.end)};
    if (part.begin >= part.end) continue;

    // Lane i computes the score of key first + i. q was written to shared memory before the
    // barriers above.
    const int64_t key = first + at.lane;
    const A score =
        part.holds(key)
            ? Variant::capped(call, dot(shared.row1, shared.tile1 + at.lane * shared.stride1, d))
            : A(-INFINITY);
    // `part` is not empty, so `raised` is finite and the first rescale is e^-inf = 0.
    const A raised = max(maximum, warp_max(score));
    A p = part.holds(key) ? exp(score - raised) : A(0);
    const A rescale = exp(maximum - raised);
    sum = sum * rescale + warp_sum(p);
    maximum = raised;
    out.scale_by(rescale);
    // Dropout after the row sum: it applies to normalised probabilities.
    if (part.holds(key)) p *= call.dropout.factor(at.b, at.h, at.row, key);
    // o += P v: every lane gets each key's p in turn and adds its own channels of that row of v.
    for (int64_t j = part.begin; j < part.end; ++j) {
      const int lane = static_cast<int>(j - first);
      out.add(__shfl_sync(kAllLanes, p, lane), shared.tile2 + lane * shared.stride2, at.lane, e);
    }
  }

  // A query that sees no key gets o = 0 and lse = -inf.
  if (!at.valid) return;
  out.write(o.row(at.row, at.b, at.h), at.lane, e, sum > 0 ? A(1) / sum : A(0));
  if (at.lane == 0)
    lse[(at.b * call.heads + at.h) * call.seen.queries + at.row] = maximum + log(sum);
}

}  // namespace

void attention_forward_rows(Stream& stream, const View& o, const View& lse, const ConstView& q,
                            const ConstView& k, const ConstView& v, const AttentionSpec& spec) {
  constexpr const char* op = "attention_forward";
  dispatch_float(q.dtype(), op, [&]<class T>(TypeTag<T>) {
    using A = Accumulator<T>;
    const auto start = [&]<class Variant>(Variant) {
      launch(stream, op,
             {attention_blocks(q.dim(0), q.dim(2), q.dim(1)), dim3(kAttentionThreads),
              SharedRows<A>::bytes(q.dim(3), v.dim(3))},
             attention_kernel<T, Variant>, AttentionCall<T>(q, k, v, spec), heads_of<T>(o),
             lse.data<A>());
    };
    dispatch_rows_variant(op, q.dim(3), v.dim(3), spec.softcap, start);
  });
}

}  // namespace tessera::cuda
