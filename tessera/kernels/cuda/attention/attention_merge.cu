// Combines attention over two disjoint sets of keys into attention over their union, as ring
// attention (context parallelism by exchange of keys) would after each step. With lse the
// log-sum-exp of a row's scores:
//
//   lse = ln(e^lse_a + e^lse_b)
//   o   = e^(lse_a - lse) o_a + e^(lse_b - lse) o_b
//
// o, o_a, o_b [S, B, H, e]; lse, lse_a, lse_b acc [B, H, S]. A warp computes one query of one head;
// lanes take every 32nd channel. o_b may be of another type than o (f32 partial results, say).
#include "tessera/kernels/cuda/attention/attention_call.cuh"
#include "tessera/kernels/cuda/cuda_kernels.h"
#include "tessera/kernels/cuda/launch.cuh"

namespace tessera::cuda {
namespace {

using std::int64_t;

constexpr int kMergeThreads = 256;
// A warp per row, so 8 rows per block.
constexpr int kMergeRows = kMergeThreads / kWarp;

// ln(e^a + e^b), with the larger one factored out so that nothing overflows; log1p keeps the digits
// of the smaller. Two -inf stay -inf, where a - b would be NaN.
template <class A>
__device__ A log_add(A a, A b) {
  const A most = b > a ? b : a;
  if (most == A(-INFINITY)) return most;
  // exp(-|a - b|) is at most 1. If one side is -inf, it is 0 and the result is the other side.
  return most + log1p(exp(-fabs(a - b)));
}

// The contribution of one part to an element. A part that saw no key contributes nothing: its
// weight would be NaN if the other part is empty, too.
template <class T, class A = Accumulator<T>>
__device__ A part_of(const T& value, A part, A all) {
  return part == A(-INFINITY) ? A(0) : exp(part - all) * load(value);
}

// o and lse may be the same memory as o_a and lse_a: each element is read by the thread that writes
// it, and lse is written after all lanes have read it.
template <class T, class B>
struct MergeCall {
  Heads<T> o;
  Heads<const T> o_a;
  Heads<const B> o_b;
  Accumulator<T>* lse;
  const Accumulator<T>* lse_a;
  const Accumulator<T>* lse_b;
  int64_t queries, heads, rows;  ///< rows: of all heads and samples
  int e;
};

template <class T, class B>
__global__ void __launch_bounds__(kMergeThreads) merge_kernel(MergeCall<T, B> call) {
  using A = Accumulator<T>;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t at = int64_t{blockIdx.x} * kMergeRows + threadIdx.x / kWarp;
  // A whole warp leaves, so the __syncwarp below is not affected.
  if (at >= call.rows) return;
  // Rows in the order of lse: [B, H, S].
  const int64_t i = at % call.queries;
  const int64_t h = at / call.queries % call.heads;
  const int64_t b = at / call.queries / call.heads;
  const A log_a = call.lse_a[at];
  const A log_b = call.lse_b[at];
  const A all = log_add(log_a, log_b);
  T* const out = call.o.row(i, b, h);
  const T* const a = call.o_a.row(i, b, h);
  const B* const other = call.o_b.row(i, b, h);
  // Lanes read neighbouring channels, which is coalesced for any row stride.
  for (int c = lane; c < call.e; c += kWarp)
    store<T>(out[c], part_of(a[c], log_a, all) + part_of(other[c], log_b, all));
  __syncwarp();  // every lane has read lse_a and lse_b before lse is overwritten
  if (lane == 0) call.lse[at] = all;
}

}  // namespace

void CudaKernels::do_attention_merge(Stream& stream, View o, View lse, ConstView o_a,
                                     ConstView lse_a, ConstView o_b, ConstView lse_b) {
  constexpr const char* op = "attention_merge";
  const auto merge = [&]<class T, class B>(TypeTag<T>, TypeTag<B>) {
    using A = Accumulator<T>;
    const int64_t rows = o.dim(0) * o.dim(1) * o.dim(2);
    launch(stream, op, {(rows + kMergeRows - 1) / kMergeRows, dim3(kMergeThreads)},
           merge_kernel<T, B>,
           MergeCall<T, B>{heads_of<T>(o), heads_of<const T>(o_a), heads_of<const B>(o_b),
                           lse.data<A>(), lse_a.data<A>(), lse_b.data<A>(), o.dim(0), o.dim(2),
                           rows, static_cast<int>(o.dim(3))});
  };
  dispatch_float(o.dtype(), op, [&]<class T>(TypeTag<T> type) {
    dispatch_float(o_b.dtype(), op, [&]<class B>(TypeTag<B> other) {
      // Types with different accumulators (f64 with anything else) are refused by the checks of the
      // op; not instantiating them keeps the number of kernels down.
      if constexpr (std::is_same_v<Accumulator<T>, Accumulator<B>>) merge(type, other);
    });
  });
}

}  // namespace tessera::cuda
