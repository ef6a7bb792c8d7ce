// A logit per query head that takes part in the softmax of attention and has no value (a sink):
//
//   p_j = e^s_j / (sum e^s + e^sink)
//
// Attention has computed o and lse without it. With s = sigmoid(lse - sink),
//
//   o' = s o,   lse' = log(e^lse + e^sink),   d sink = -e^(sink - lse') sum over rows of d_o . o'
//
// and attention's backward takes o' and lse' as they are: they are those of a larger set of keys.
// o, d_o [S,B,H,E]; lse [B,H,S]; sink [H]. Work is divided by (sample, head).
#include <cmath>

#include "tessera/kernels/cpu/attention_blocks.h"
#include "tessera/kernels/cpu/cpu_kernels.h"
#include "tessera/kernels/cpu/parallel.h"

namespace tessera::cpu {
namespace {

using std::int64_t;

// The logit of a head; 0 without sinks.
template <class T>
Accumulator<T> sink_of(const ConstView& sink, int64_t h) {
  return sink ? load(sink.data<T>()[h]) : Accumulator<T>(0);
}

}  // namespace

// A row without keys (lse = -inf) keeps o = 0 and gets lse = sink.
void CpuKernels::do_attention_sink_forward(Stream&, View o, View lse, ConstView sink) {
  dispatch_float(o.dtype(), "attention_sink_forward", [&]<class T>(TypeTag<T>) {
    using A = Accumulator<T>;
    const int64_t heads = o.dim(2);
    parallel_for(threads_, o.dim(1) * heads, [&](int64_t at) {
      const int64_t b = at / heads, h = at % heads;
      const HeadRows<T> rows = head_rows<T>(o, b, h);
      A* const sums = lse.data<A>() + b * lse.stride(0) + h * lse.stride(1);
      const A logit = sink_of<T>(sink, h);
      for (int64_t i = 0; i < o.dim(0); ++i) {
        const A scale = Math::sigmoid(sums[i] - logit);
        T* row = rows.data + i * rows.stride;
#pragma omp simd
        for (int64_t j = 0; j < o.dim(3); ++j) store<T>(row[j], scale * load(row[j]));
        const A most = sums[i] > logit ? sums[i] : logit;
        sums[i] = most + std::log1p(std::exp(-std::fabs(sums[i] - logit)));
      }
    });
  });
}

void CpuKernels::do_attention_sink_backward(Stream&, View d_rows, ConstView d_o, ConstView o,
                                            ConstView lse, ConstView sink) {
  dispatch_float(o.dtype(), "attention_sink_backward", [&]<class T>(TypeTag<T>) {
    using A = Accumulator<T>;
    const int64_t batch = o.dim(1), heads = o.dim(2);
    parallel_for(threads_, batch * heads, [&](int64_t at) {
      const int64_t b = at / heads, h = at % heads;
      const HeadRows<const T> rows = head_rows<T>(o, b, h), d = head_rows<T>(d_o, b, h);
      const A* const sums = lse.data<A>() + b * lse.stride(0) + h * lse.stride(1);
      const A logit = sink_of<T>(sink, h);
      for (int64_t i = 0; i < o.dim(0); ++i) {
        const T* x = rows.data + i * rows.stride;
        const T* dx = d.data + i * d.stride;
        A dot = 0;
#pragma omp simd reduction(+ : dot)
        for (int64_t j = 0; j < o.dim(3); ++j) dot += load(x[j]) * load(dx[j]);
        d_rows.data<A>()[(i * batch + b) * heads + h] = -std::exp(logit - sums[i]) * dot;
      }
    });
  });
}

}  // namespace tessera::cpu
