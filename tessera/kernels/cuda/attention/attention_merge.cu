// Combines attention over two disjoint sets of keys into attention over their union, as ring
// attention (context parallelism by exchange of keys) does after each step. With lse the
// log-sum-exp of a row's scores:
//
//   lse = ln(e^lse_a + e^lse_b)
//   o   = e^(lse_a - lse) o_a + e^(lse_b - lse) o_b
//
// o, o_a, o_b [S, B, H, e]; lse, lse_a, lse_b acc [B, H, S]. A warp computes one query of one head,
// and a lane four neighbouring channels at a time. o and o_a may be in the accumulator type, where
// o_b is what an attention kernel wrote.
#include "tessera/kernels/cuda/attention/attention_call.cuh"
#include "tessera/kernels/cuda/cuda_kernels.h"
#include "tessera/kernels/cuda/launch.cuh"
#include "tessera/kernels/cuda/vector.cuh"

namespace tessera::cuda {
namespace {

using std::int64_t;

constexpr int kMergeThreads = 256;
// A warp per row, so 8 rows per block.
constexpr int kMergeRows = kMergeThreads / kWarp;
// Channels of a lane: 8 bytes of a 16-bit type, 16 of f32. A warp covers heads of 128 at once.
constexpr int kMergePack = 4;

// ln(e^a + e^b), with the larger one factored out so that nothing overflows; log1p keeps the digits
// of the smaller. Two -inf stay -inf, where a - b would be NaN.
template <class A>
__device__ A log_add(A a, A b) {
  const A most = b > a ? b : a;
  if (most == A(-INFINITY)) return most;
  // exp(-|a - b|) is at most 1. If one side is -inf, it is 0 and the result is the other side.
  return most + log1p(exp(-fabs(a - b)));
}

// The log-sum-exps [B, H, S] with any strides of samples and heads.
template <class A>
struct LogSums {
  A* data;
  int64_t b_stride, head_stride;
  __device__ A* at(int64_t i, int64_t b, int64_t h) const {
    return data + b * b_stride + h * head_stride + i;
  }
};

template <class A, class V>
LogSums<A> log_sums_of(const V& lse) {
  return {lse.template data<std::remove_const_t<A>>(), lse.stride(0), lse.stride(1)};
}

// One part of a row. A part that saw no key is not read and contributes nothing: its weight would
// be NaN if the other part is empty, too.
template <class T>
struct MergePart {
  using A = Accumulator<T>;
  __device__ MergePart(const T* out, A part, A all)
      : row(part == A(-INFINITY) ? nullptr : out), weight(row ? exp(part - all) : A(0)) {}
  template <int kCount>
  __device__ void add_to(Pack<A, kCount>& sum, int c) const {
    if (!row) return;
    const Pack<A, kCount> values = widened(load_pack<kCount>(row + c));
#pragma unroll
    for (int k = 0; k < kCount; ++k) sum.at[k] += weight * values.at[k];
  }
  const T* row;
  A weight;
};

// o and lse may be the same memory as o_a and lse_a: each element is read by the thread that writes
// it, and lse is written after all lanes have read it.
template <class O, class OA, class OB>
struct MergeCall {
  using A = Accumulator<OB>;
  Heads<O> o;
  Heads<const OA> o_a;
  Heads<const OB> o_b;
  LogSums<A> lse;
  LogSums<const A> lse_a, lse_b;
  int64_t queries, heads, rows;  ///< rows: of all heads and samples
  int e;
};

// kCount: channels of a lane at a time.
template <int kCount, class O, class OA, class OB>
__global__ void __launch_bounds__(kMergeThreads) merge_kernel(MergeCall<O, OA, OB> call) {
  using A = Accumulator<OB>;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t at = int64_t{blockIdx.x} * kMergeRows + threadIdx.x / kWarp;
  // A whole warp leaves, so the __syncwarp below is not affected.
  if (at >= call.rows) return;
  // Rows in the order of lse: [B, H, S].
  const int64_t i = at % call.queries;
  const int64_t h = at / call.queries % call.heads;
  const int64_t b = at / call.queries / call.heads;
  const A log_a = *call.lse_a.at(i, b, h);
  const A log_b = *call.lse_b.at(i, b, h);
  const A all = log_add(log_a, log_b);
  O* const out = call.o.row(i, b, h);
  const MergePart<OA> part_a(call.o_a.row(i, b, h), log_a, all);
  const MergePart<OB> part_b(call.o_b.row(i, b, h), log_b, all);
  // Neighbouring lanes read neighbouring packs, which is coalesced for any row stride.
  for (int c = lane * kCount; c < call.e; c += kWarp * kCount) {
    Pack<A, kCount> sum{};
    part_a.add_to(sum, c);
    part_b.add_to(sum, c);
    store_pack(out + c, rounded<O>(sum));
  }
  __syncwarp();  // every lane has read lse_a and lse_b before lse is overwritten
  if (lane == 0) *call.lse.at(i, b, h) = all;
}

// Whether all rows can be moved in packs.
template <class T>
bool has_packs(const ConstView& heads) {
  for (int i = 0; i < 3; ++i)
    if (heads.dim(i) > 1 && heads.stride(i) % kMergePack != 0) return false;
  return heads.dim(3) % kMergePack == 0 && can_pack<kMergePack>(heads.data<T>());
}

}  // namespace

void CudaKernels::do_attention_merge(Stream& stream, View o, View lse, ConstView o_a,
                                     ConstView lse_a, ConstView o_b, ConstView lse_b) {
  constexpr const char* op = "attention_merge";
  const auto merge = [&]<class O, class OA, class OB>(TypeTag<O>, TypeTag<OA>, TypeTag<OB>) {
    using A = Accumulator<OB>;
    const int64_t rows = o.dim(0) * o.dim(1) * o.dim(2);
    const MergeCall<O, OA, OB> call{heads_of<O>(o),
                                    heads_of<const OA>(o_a),
                                    heads_of<const OB>(o_b),
                                    log_sums_of<A>(lse),
                                    log_sums_of<const A>(lse_a),
                                    log_sums_of<const A>(lse_b),
                                    o.dim(0),
                                    o.dim(2),
                                    rows,
                                    static_cast<int>(o.dim(3))};
    const Grid grid{(rows + kMergeRows - 1) / kMergeRows, dim3(kMergeThreads)};
    if (has_packs<O>(o) && has_packs<OA>(o_a) && has_packs<OB>(o_b))
      launch(stream, op, grid, merge_kernel<kMergePack, O, OA, OB>, call);
    else
      launch(stream, op, grid, merge_kernel<1, O, OA, OB>, call);
  };
  dispatch_float(o_b.dtype(), op, [&]<class OB>(TypeTag<OB> type_b) {
    dispatch_type_or_accumulator<OB>(o.dtype(), [&]<class O>(TypeTag<O> type) {
      dispatch_type_or_accumulator<OB>(
          o_a.dtype(), [&]<class OA>(TypeTag<OA> type_a) { merge(type, type_a, type_b); });
    });
  });
}

}  // namespace tessera::cuda
