// Attention forward for any type and shape: a warp per query, with a running maximum and sum over
// tiles of keys.
#include "tessera/kernels/cuda/attention/attention_kernels.h"
#include "tessera/kernels/cuda/attention/attention_rows.cuh"

namespace tessera::cuda {
namespace {

using std::int64_t;

template <class T, int kPerLane>
__global__ void __launch_bounds__(kAttentionThreads)
    attention_kernel(AttentionCall<T> call, Heads<T> o, Accumulator<T>* lse) {
  using A = Accumulator<T>;
  extern __shared__ __align__(16) unsigned char memory[];
  const int d = call.d;
  const int e = call.e;
  const Place at(call.seen.queries, call.heads);
  const SharedRows<A> shared(memory, at, d, e);
  const int64_t kv = at.h / call.group;
  const Span mine = at.valid ? call.seen.keys_of(at.b, at.row) : Span{0, 0};
  const Span all = call.seen.keys_of(at.b, Span{at.first, at.last});
  if (at.valid) load_row(shared.row1, call.q.row(at.row, at.b, at.h), at.lane, d, call.scale);

  A maximum = -INFINITY;
  A sum = 0;
  RowSum<A, kPerLane> out;
  for (int64_t first = all.begin; first < all.end; first += kWarp) {
    const Span tile{first, min(first + kWarp, all.end)};
    __syncthreads();  // nobody reads the last tiles any more
    load_tile(shared.tile1, shared.stride1, call.k, at, kv, tile, d);
    load_tile(shared.tile2, shared.stride2, call.v, at, kv, tile, e);
    __syncthreads();
    const Span part{max(tile.begin, mine.begin), min(tile.end, mine.end)};
    if (part.begin >= part.end) continue;

    const int64_t key = first + at.lane;
    const A score = part.holds(key)
                        ? call.capped(dot(shared.row1, shared.tile1 + at.lane * shared.stride1, d))
                        : A(-INFINITY);
    const A raised = max(maximum, warp_max(score));
    A p = part.holds(key) ? exp(score - raised) : A(0);
    const A rescale = exp(maximum - raised);
    sum = sum * rescale + warp_sum(p);
    maximum = raised;
    out.scale_by(rescale);
    if (part.holds(key)) p *= call.dropout.factor(at.b, at.h, at.row, key);
    for (int64_t j = part.begin; j < part.end; ++j) {
      const int lane = static_cast<int>(j - first);
      out.add(__shfl_sync(kAllLanes, p, lane), shared.tile2 + lane * shared.stride2, at.lane, e);
    }
  }

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
    const auto start = [&]<int kPerLane>(std::integral_constant<int, kPerLane>) {
      launch(stream, op,
             {attention_blocks(q.dim(0), q.dim(2), q.dim(1)), dim3(kAttentionThreads),
              SharedRows<A>::bytes(q.dim(3), v.dim(3))},
             attention_kernel<T, kPerLane>, AttentionCall<T>(q, k, v, spec), heads_of<T>(o),
             lse.data<A>());
    };
    dispatch_head_size(op, q.dim(3), v.dim(3), start);
  });
}

}  // namespace tessera::cuda
