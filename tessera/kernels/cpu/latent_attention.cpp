// Ops of latent attention besides attention itself: sums over heads, and the softmax of scores that
// are computed as a matrix product.
#include <algorithm>
#include <cmath>

#include "tessera/kernels/cpu/cpu_kernels.h"
#include "tessera/kernels/cpu/math.h"
#include "tessera/kernels/cpu/parallel.h"

namespace tessera::cpu {

using std::int64_t;

// A row is summed head by head, by one thread, in blocks of channels that stay in registers or
// cache.
void CpuKernels::do_sum_heads(Stream&, View y, ConstView x) {
  dispatch_float(x.dtype(), "sum_heads", [&]<class T>(TypeTag<T>) {
    constexpr int64_t kBlock = 64;
    const int64_t heads = x.dim(1), n = x.dim(2);
    parallel_pieces(threads_, x.dim(0), rows_per_piece(heads * n), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        for (int64_t from = 0; from < n; from += kBlock) {
          const int64_t count = std::min(kBlock, n - from);
          Accumulator<T> sums[kBlock] = {};
          for (int64_t h = 0; h < heads; ++h) {
            const T* head = x.data<T>() + i * x.stride(0) + h * x.stride(1) + from;
#pragma omp simd
            for (int64_t j = 0; j < count; ++j) sums[j] += load(head[j]);
          }
          T* to = y.data<T>() + i * y.stride(0) + from;
          for (int64_t j = 0; j < count; ++j) store<T>(to[j], sums[j]);
        }
    });
  });
}

void CpuKernels::do_softmax_rows(Stream&, View y, ConstView x) {
  dispatch_float(y.dtype(), "softmax_rows", [&]<class T>(TypeTag<T>) {
    using A = Accumulator<T>;
    const int64_t n = x.dim(1);
    parallel_pieces(threads_, x.dim(0), rows_per_piece(n), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const A* from = x.data<A>() + i * n;
        T* to = y.data<T>() + i * n;
        const A maximum = *std::max_element(from, from + n);
        A sum = 0;
        for (int64_t j = 0; j < n; ++j) sum += std::exp(from[j] - maximum);
        for (int64_t j = 0; j < n; ++j) store<T>(to[j], std::exp(from[j] - maximum) / sum);
      }
    });
  });
}

}  // namespace tessera::cpu
