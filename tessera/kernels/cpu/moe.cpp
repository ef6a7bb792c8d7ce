// Mixture of experts: the sort of rows by expert, and products with one matrix per expert.
#include <algorithm>
#include <cstddef>
#include <cstring>

#include "tessera/kernels/cpu/cpu_kernels.h"
#include "tessera/kernels/cpu/math.h"
#include "tessera/kernels/cpu/parallel.h"

namespace tessera::cpu {
namespace {

using std::int32_t;
using std::int64_t;

// The matrix of one expert, [n, k], out of [L, n, k].
template <class AnyView>
AnyView matrix(const AnyView& all, int64_t expert) {
  const AnyView one = all.slice(0, expert, 1);
  return {one.raw(), one.dtype(), Shape{all.dim(1), all.dim(2)}, Shape{all.stride(1), 1}};
}

}  // namespace

// A counting sort, which keeps the order of pairs within an expert. One thread: it touches a few
// integers per pair, next to nothing beside the products of the same rows.
void CpuKernels::do_sort_by_expert(Stream&, View order, View place, View offsets, ConstView expert,
                                   int64_t first, int64_t padded) {
  const int64_t pairs = expert.numel();
  const int64_t experts = offsets.dim(0) - 1;
  const int32_t* chosen = expert.data<int32_t>();
  int32_t* end_of = offsets.data<int32_t>();
  const auto is_local = [&](int64_t i) {
    return chosen[i] >= first && chosen[i] < first + experts;
  };
  const auto padded_begin = [&](int64_t e) { return static_cast<int32_t>(e * padded); };
  std::fill_n(end_of, experts + 1, 0);
  if (padded > 0) {
    for (int64_t e = 0; e <= experts; ++e) end_of[e] = padded_begin(e);
  } else {
    // Counts of expert l are kept at l + 1, so that their running sum is where each expert begins.
    for (int64_t i = 0; i < pairs; ++i)
      if (is_local(i)) ++end_of[chosen[i] - first + 1];
    for (int64_t e = 0; e < experts; ++e) end_of[e + 1] += end_of[e];
  }
  std::fill_n(order.data<int32_t>(), order.dim(0), -1);
  // Each expert's begin moves to its end while its pairs are placed.
  for (int64_t i = 0; i < pairs; ++i) {
    const int64_t e = chosen[i] - first;
    const bool fits = is_local(i) && (padded == 0 || end_of[e] < padded_begin(e + 1));
    const int32_t at = fits ? end_of[e]++ : -1;
    place.data<int32_t>()[i] = at;
    if (at >= 0) order.data<int32_t>()[at] = static_cast<int32_t>(i);
  }
  for (int64_t e = experts; e > 0; --e) end_of[e] = padded > 0 ? padded_begin(e) : end_of[e - 1];
  end_of[0] = 0;
}

void CpuKernels::do_permute_rows(Stream&, View y, ConstView x, ConstView order, int64_t k) {
  const auto bytes = static_cast<std::size_t>(x.dim(1)) * element_size(x.dtype());
  const auto* from = static_cast<const std::byte*>(x.raw());
  auto* to = static_cast<std::byte*>(y.raw());
  const int32_t* pair = order.data<int32_t>();
  parallel_pieces(threads_, y.dim(0), rows_per_piece(x.dim(1)), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      std::byte* row = to + static_cast<std::size_t>(i) * bytes;
      if (pair[i] < 0)
        std::memset(row, 0, bytes);
      else
        std::memcpy(row, from + static_cast<std::size_t>(pair[i] / k) * bytes, bytes);
    }
  });
}

// The sum of a row is kept in a buffer of the accumulator's type and rounded once.
void CpuKernels::do_unpermute_rows(Stream&, View y, ConstView x, ConstView place) {
  dispatch_float(x.dtype(), "unpermute_rows", [&]<class T>(TypeTag<T>) {
    using A = Accumulator<T>;
    const int64_t n = x.dim(1), k = place.dim(1);
    constexpr int64_t kChunk = 256;  // columns at a time, on the stack
    parallel_pieces(threads_, y.dim(0), rows_per_piece(n * k), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int32_t* from = place.data<int32_t>() + i * k;
        for (int64_t c = 0; c < n; c += kChunk) {
          const int64_t width = std::min(kChunk, n - c);
          A sum[kChunk] = {};
          for (int64_t j = 0; j < k; ++j) {
            if (from[j] < 0) continue;
            const T* row = x.data<T>() + from[j] * n + c;
#pragma omp simd
            for (int64_t e = 0; e < width; ++e) sum[e] += load(row[e]);
          }
          T* out = y.data<T>() + i * n + c;
#pragma omp simd
          for (int64_t e = 0; e < width; ++e) store<T>(out[e], sum[e]);
        }
      }
    });
  });
}

// One product per expert, each over all threads. Rows that belong to no expert are set to 0.
void CpuKernels::do_grouped_gemm(Stream& stream, View d, ConstView a, ConstView b,
                                 ConstView offsets, bool transpose_b) {
  const int32_t* begin = offsets.data<int32_t>();
  const int64_t experts = b.dim(0);
  GemmSpec spec;
  spec.transpose_b = transpose_b;
  for (int64_t e = 0; e < experts; ++e) {
    const int64_t rows = begin[e + 1] - begin[e];
    if (rows > 0)
      do_gemm(stream, d.slice(0, begin[e], rows), a.slice(0, begin[e], rows), matrix(b, e), spec,
              {});
  }
  do_fill(stream, d.slice(0, begin[experts], d.dim(0) - begin[experts]), 0.0);
}

// An expert without rows gets a sum of nothing: its gradient is 0, or stays as it is.
void CpuKernels::do_grouped_weight_gradient(Stream& stream, View d, ConstView a, ConstView b,
                                            ConstView offsets, bool accumulate) {
  const int32_t* begin = offsets.data<int32_t>();
  GemmSpec spec;
  spec.transpose_a = true;
  spec.accumulate = accumulate;
  for (int64_t e = 0; e < d.dim(0); ++e) {
    const int64_t rows = begin[e + 1] - begin[e];
    do_gemm(stream, matrix(d, e), a.slice(0, begin[e], rows), b.slice(0, begin[e], rows), spec, {});
  }
}

void CpuKernels::do_scale_rows(Stream&, View y, ConstView x, ConstView scale) {
  dispatch_float(x.dtype(), "scale_rows", [&]<class T>(TypeTag<T>) {
    const int64_t n = x.dim(1);
    parallel_pieces(threads_, x.dim(0), rows_per_piece(n), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const Accumulator<T> s = scale.data<Accumulator<T>>()[i];
        const T* from = x.data<T>() + i * n;
        T* to = y.data<T>() + i * n;
#pragma omp simd
        for (int64_t j = 0; j < n; ++j) store<T>(to[j], s * load(from[j]));
      }
    });
  });
}

// A row is summed by one thread, over vector lanes.
void CpuKernels::do_row_dot(Stream&, View out, ConstView x, ConstView y) {
  dispatch_float(x.dtype(), "row_dot", [&]<class T>(TypeTag<T>) {
    const int64_t n = x.dim(1);
    parallel_pieces(threads_, x.dim(0), rows_per_piece(n), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const T* a = x.data<T>() + i * n;
        const T* b = y.data<T>() + i * n;
        Accumulator<T> sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t j = 0; j < n; ++j) sum += load(a[j]) * load(b[j]);
        out.data<Accumulator<T>>()[i] = sum;
      }
    });
  });
}

}  // namespace tessera::cpu
