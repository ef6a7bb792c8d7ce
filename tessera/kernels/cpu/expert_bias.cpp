// Biases of experts. Rows are sorted by expert, so that those of expert l are
// [offsets[l], offsets[l + 1]); behind a down projection a bias counts with the weight of the row.
#include <algorithm>

#include "tessera/kernels/cpu/cpu_kernels.h"
#include "tessera/kernels/cpu/math.h"
#include "tessera/kernels/cpu/parallel.h"

namespace tessera::cpu {
namespace {

using std::int32_t;
using std::int64_t;

// Calls f(row, expert) for the rows of all experts; each row is one thread's.
template <class F>
void for_each_row(int threads, const ConstView& offsets, int64_t columns, F&& f) {
  const int32_t* begin_of = offsets.data<int32_t>();
  const int64_t experts = offsets.dim(0) - 1;
  parallel_pieces(
      threads, begin_of[experts], rows_per_piece(columns), [&](int64_t begin, int64_t end) {
        int64_t expert = std::upper_bound(begin_of, begin_of + experts + 1, begin) - begin_of - 1;
        for (int64_t i = begin; i < end; ++i) {
          while (i >= begin_of[expert + 1]) ++expert;
          f(i, expert);
        }
      });
}

}  // namespace

void CpuKernels::do_add_expert_bias(Stream&, View y, ConstView bias, ConstView offsets,
                                    ConstView weight) {
  dispatch_float(y.dtype(), "add_expert_bias", [&]<class T>(TypeTag<T>) {
    using A = Accumulator<T>;
    const int64_t n = y.dim(1);
    for_each_row(threads_, offsets, n, [&](int64_t i, int64_t expert) {
      const A p = weight ? weight.data<A>()[i] : A(1);
      const T* add = bias.data<T>() + expert * n;
      T* row = y.data<T>() + i * n;
#pragma omp simd
      for (int64_t j = 0; j < n; ++j) store<T>(row[j], load(row[j]) + p * load(add[j]));
    });
  });
}

// An expert is one thread's, which adds its rows in order, a block of columns at a time.
void CpuKernels::do_expert_bias_gradient(Stream&, View dbias, ConstView dy, ConstView offsets,
                                         ConstView weight, bool accumulate) {
  constexpr int64_t kBlock = 256;  // columns, on the stack
  const int32_t* begin_of = offsets.data<int32_t>();
  const int64_t n = dy.dim(1), blocks = (n + kBlock - 1) / kBlock;
  const auto sum = [&]<class T, class D>(TypeTag<T>, TypeTag<D>) {
    using A = Accumulator<T>;
    parallel_for(threads_, dbias.dim(0) * blocks, [&](int64_t at) {
      const int64_t expert = at / blocks, first = at % blocks * kBlock;
      const int64_t width = std::min(kBlock, n - first);
      A sums[kBlock] = {};
      for (int64_t i = begin_of[expert]; i < begin_of[expert + 1]; ++i) {
        const A p = weight ? weight.data<A>()[i] : A(1);
        const T* row = dy.data<T>() + i * n + first;
#pragma omp simd
        for (int64_t j = 0; j < width; ++j) sums[j] += p * load(row[j]);
      }
      D* out = dbias.data<D>() + expert * n + first;
      for (int64_t j = 0; j < width; ++j)
        store<D>(out[j], static_cast<Accumulator<D>>(sums[j]) +
                             (accumulate ? load(out[j]) : Accumulator<D>(0)));
    });
  };
  dispatch_float(dy.dtype(), "expert_bias_gradient", [&]<class T>(TypeTag<T> type) {
    dispatch_type_or_accumulator<T>(dbias.dtype(), [&](auto sum_type) { sum(type, sum_type); });
  });
}

void CpuKernels::do_expert_bias_dot(Stream&, View dweight, ConstView dy, ConstView bias,
                                    ConstView offsets) {
  dispatch_float(dy.dtype(), "expert_bias_dot", [&]<class T>(TypeTag<T>) {
    using A = Accumulator<T>;
    const int64_t n = dy.dim(1);
    for_each_row(threads_, offsets, n, [&](int64_t i, int64_t expert) {
      const T* add = bias.data<T>() + expert * n;
      const T* row = dy.data<T>() + i * n;
      A dot = 0;
#pragma omp simd reduction(+ : dot)
      for (int64_t j = 0; j < n; ++j) dot += load(row[j]) * load(add[j]);
      dweight.data<A>()[i] += dot;
    });
  });
}

}  // namespace tessera::cpu
