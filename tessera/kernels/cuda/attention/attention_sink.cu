// A logit per query head that takes part in the softmax of attention and has no value (a sink), for
// attention that was computed without it:
//
//   o' = sigmoid(lse - sink) o,   lse' = ln(e^lse + e^sink)
//   d sink = -e^(sink - lse') sum over rows of d_o . o'
//
// o, d_o [S, B, H, e]; lse acc [B, H, S]; sink [H], or null for zeros. A warp computes one query of
// one head.
#include "tessera/kernels/cuda/attention/attention_call.cuh"
#include "tessera/kernels/cuda/cuda_kernels.h"
#include "tessera/kernels/cuda/launch.cuh"

namespace tessera::cuda {
namespace {

using std::int64_t;

constexpr int kSinkThreads = 256;
constexpr int kSinkRows = kSinkThreads / kWarp;

// T and the sums are const in backward.
template <class T, class Sum>
struct SinkCall {
  using A = std::remove_const_t<Sum>;
  Heads<T> o;
  Sum* lse;
  int64_t lse_b_stride, lse_head_stride;
  const T* sink;
  int64_t queries, batch, heads;
  int e;

  __device__ A logit(int64_t h) const { return sink != nullptr ? load(sink[h]) : A(0); }
  __device__ Sum* lse_at(int64_t i, int64_t b, int64_t h) const {
    return lse + b * lse_b_stride + h * lse_head_stride + i;
  }
};

// The query, sample and head of this warp; rows in the order of lse: [B, H, S].
struct SinkRow {
  int64_t i, b, h;
  bool here;
};
__device__ SinkRow sink_row(int64_t queries, int64_t batch, int64_t heads) {
  const int64_t at = int64_t{blockIdx.x} * kSinkRows + threadIdx.x / kWarp;
  return {at % queries, at / queries / heads, at / queries % heads, at < queries * batch * heads};
}

template <class T, class A = Accumulator<T>>
__global__ void __launch_bounds__(kSinkThreads) sink_forward_kernel(SinkCall<T, A> call) {
  const SinkRow at = sink_row(call.queries, call.batch, call.heads);
  if (!at.here) return;  // the whole warp returns
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  A* const lse = call.lse_at(at.i, at.b, at.h);
  const A sum = *lse, logit = call.logit(at.h);
  const A scale = PreciseMath::sigmoid(sum - logit);
  T* const row = call.o.row(at.i, at.b, at.h);
  for (int c = lane; c < call.e; c += kWarp) store<T>(row[c], scale * load(row[c]));
  __syncwarp();  // every lane has read lse
  if (lane == 0) *lse = (sum > logit ? sum : logit) + log1p(exp(-fabs(sum - logit)));
}

template <class T, class A = Accumulator<T>>
__global__ void __launch_bounds__(kSinkThreads)
    sink_backward_kernel(A* d_rows, Heads<const T> d_o, SinkCall<const T, const A> call) {
  const SinkRow at = sink_row(call.queries, call.batch, call.heads);
  if (!at.here) return;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const T* const row = call.o.row(at.i, at.b, at.h);
  const T* const d_row = d_o.row(at.i, at.b, at.h);
  A dot = 0;
  for (int c = lane; c < call.e; c += kWarp) dot += load(row[c]) * load(d_row[c]);
  dot = warp_sum(dot);
  if (lane == 0)
    d_rows[(at.i * call.batch + at.b) * call.heads + at.h] =
        -exp(call.logit(at.h) - *call.lse_at(at.i, at.b, at.h)) * dot;
}

template <class T, class V, class L>
auto sink_call(const V& o, const L& lse, const ConstView& sink) {
  using Sum = std::conditional_t<std::is_const_v<T>, const Accumulator<std::remove_const_t<T>>,
                                 Accumulator<std::remove_const_t<T>>>;
  using A = std::remove_const_t<Sum>;
  return SinkCall<T, Sum>{heads_of<T>(o),
                          lse.template data<A>(),
                          lse.stride(0),
                          lse.stride(1),
                          sink ? sink.data<std::remove_const_t<T>>() : nullptr,
                          o.dim(0),
                          o.dim(1),
                          o.dim(2),
                          static_cast<int>(o.dim(3))};
}

Grid sink_grid(const ConstView& o) {
  const int64_t rows = o.dim(0) * o.dim(1) * o.dim(2);
  return {(rows + kSinkRows - 1) / kSinkRows, dim3(kSinkThreads)};
}

}  // namespace

void CudaKernels::do_attention_sink_forward(Stream& stream, View o, View lse, ConstView sink) {
  constexpr const char* op = "attention_sink_forward";
  dispatch_float(o.dtype(), op, [&]<class T>(TypeTag<T>) {
    launch(stream, op, sink_grid(o), sink_forward_kernel<T, Accumulator<T>>,
           sink_call<T>(o, lse, sink));
  });
}

void CudaKernels::do_attention_sink_backward(Stream& stream, View d_rows, ConstView d_o,
                                             ConstView o, ConstView lse, ConstView sink) {
  constexpr const char* op = "attention_sink_backward";
  dispatch_float(o.dtype(), op, [&]<class T>(TypeTag<T>) {
    launch(stream, op, sink_grid(o), sink_backward_kernel<T, Accumulator<T>>,
           d_rows.data<Accumulator<T>>(), heads_of<const T>(d_o), sink_call<const T>(o, lse, sink));
  });
}

}  // namespace tessera::cuda
