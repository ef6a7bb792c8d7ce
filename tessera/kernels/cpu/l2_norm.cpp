// RMSNorm without weights, of the heads of queries and keys. With r = 1 / sqrt(mean x^2 + epsilon)
// and h = r x:
//
//   y = h,   dx = r (dy - h mean(dy h))
//
// r is computed again in backward, which reads x anyway. Rows x[i, g] of x [N, G, C].
#include <cmath>

#include "tessera/kernels/cpu/cpu_kernels.h"
#include "tessera/kernels/cpu/math.h"
#include "tessera/kernels/cpu/parallel.h"

namespace tessera::cpu {
namespace {

using std::int64_t;

template <class T, class A = Accumulator<T>>
A inverse_root(const T* x, int64_t n, double epsilon) {
  A squares = 0;
#pragma omp simd reduction(+ : squares)
  for (int64_t j = 0; j < n; ++j) squares += load(x[j]) * load(x[j]);
  return A(1) / std::sqrt(squares / static_cast<A>(n) + static_cast<A>(epsilon));
}

// The row (i, g) of [N, G, C].
template <class T, class V>
T* row_at(const V& x, int64_t i, int64_t g) {
  return x.template data<std::remove_const_t<T>>() + i * x.stride(0) + g * x.stride(1);
}

}  // namespace

void CpuKernels::do_l2_norm_forward(Stream&, View y, ConstView x, double epsilon) {
  dispatch_float(x.dtype(), "l2_norm_forward", [&]<class T>(TypeTag<T>) {
    const int64_t groups = x.dim(1), n = x.dim(2);
    const int64_t piece = rows_per_piece(groups * n);
    parallel_pieces(threads_, x.dim(0), piece, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        for (int64_t g = 0; g < groups; ++g) {
          const T* from = row_at<const T>(x, i, g);
          T* to = row_at<T>(y, i, g);
          const Accumulator<T> r = inverse_root(from, n, epsilon);
#pragma omp simd
          for (int64_t j = 0; j < n; ++j) store<T>(to[j], r * load(from[j]));
        }
    });
  });
}

void CpuKernels::do_l2_norm_backward(Stream&, View dx, ConstView dy, ConstView x, double epsilon) {
  dispatch_float(x.dtype(), "l2_norm_backward", [&]<class T>(TypeTag<T>) {
    using A = Accumulator<T>;
    const int64_t groups = x.dim(1), n = x.dim(2);
    const int64_t piece = rows_per_piece(groups * n);
    parallel_pieces(threads_, x.dim(0), piece, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        for (int64_t g = 0; g < groups; ++g) {
          const T* from = row_at<const T>(x, i, g);
          const T* upstream = row_at<const T>(dy, i, g);
          T* to = row_at<T>(dx, i, g);
          const A r = inverse_root(from, n, epsilon);
          A dot = 0;
#pragma omp simd reduction(+ : dot)
          for (int64_t j = 0; j < n; ++j) dot += load(upstream[j]) * (r * load(from[j]));
          const A mean = dot / static_cast<A>(n);
#pragma omp simd
          for (int64_t j = 0; j < n; ++j)
            store<T>(to[j], r * (load(upstream[j]) - r * load(from[j]) * mean));
        }
    });
  });
}

}  // namespace tessera::cpu
