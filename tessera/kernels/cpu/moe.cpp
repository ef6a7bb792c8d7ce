// Mixture of experts: the top-1 router, the sort of rows by expert, and products with one matrix
// per expert.
#include <algorithm>

#include "tessera/kernels/cpu/cpu_kernels.h"
#include "tessera/kernels/cpu/math.h"
#include "tessera/kernels/cpu/parallel.h"

namespace tessera::cpu {
namespace {

using std::int32_t;
using std::int64_t;

// sum_j e^(x_j - maximum) over a row of E logits, in order. The term of the maximum is 1, so the
// sum is at least 1.
template <class A>
A exp_sum(const A* x, int64_t n, A maximum) {
  A sum = 0;
  for (int64_t j = 0; j < n; ++j) sum += exp_of(x[j] - maximum);
  return sum;
}

// The matrix of one expert, [n, k], out of [L, n, k].
template <class AnyView>
AnyView matrix(const AnyView& all, int64_t expert) {
  const AnyView one = all.slice(0, expert, 1);
  return {one.raw(), one.dtype(), Shape{all.dim(1), all.dim(2)}, Shape{all.stride(1), 1}};
}

}  // namespace

// A row is one thread's. max_element returns the first of equal elements: the lowest expert number.
void CpuKernels::do_route_top1(Stream&, View expert, View probability, ConstView logits) {
  const int64_t experts = logits.dim(1);
  const auto route = [&]<class A>(TypeTag<A>) {
    const auto rows = [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const A* row = logits.data<A>() + i * experts;
        const A* best = std::max_element(row, row + experts);
        expert.data<int32_t>()[i] = static_cast<int32_t>(best - row);
        probability.data<A>()[i] = A(1) / exp_sum(row, experts, *best);
      }
    };
    parallel_pieces(threads_, logits.dim(0), rows_per_piece(experts), rows);
  };
  if (logits.dtype() == DType::f64)
    route(TypeTag<double>{});
  else
    route(TypeTag<float>{});
}

// With p = softmax(l) and the chosen expert e: dl_j = dp_e p_e ([j = e] - p_j). The softmax is
// computed again from the logits, which costs less than keeping it.
void CpuKernels::do_route_top1_backward(Stream&, View dlogits, ConstView dprobability,
                                        ConstView expert, ConstView logits) {
  dispatch_float(dlogits.dtype(), "route_top1_backward", [&]<class T>(TypeTag<T>) {
    using A = Accumulator<T>;
    const int64_t experts = logits.dim(1);
    parallel_pieces(
        threads_, logits.dim(0), rows_per_piece(experts), [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            const A* row = logits.data<A>() + i * experts;
            const int64_t chosen = expert.data<int32_t>()[i];
            const A scale = A(1) / exp_sum(row, experts, row[chosen]);  // p of the chosen expert
            const A gradient = dprobability.data<A>()[i] * scale;
            for (int64_t j = 0; j < experts; ++j) {
              const A p = exp_of(row[j] - row[chosen]) * scale;
              store<T>(dlogits.data<T>()[i * experts + j], gradient * ((j == chosen ? 1 : 0) - p));
            }
          }
        });
  });
}

// A counting sort, which keeps the order of rows within an expert. One thread: it touches a few
// integers per row, next to nothing beside the products of the same rows.
void CpuKernels::do_sort_by_expert(Stream&, View order, View place, View offsets, ConstView expert,
                                   int64_t first) {
  const int64_t rows = expert.dim(0);
  const int64_t experts = offsets.dim(0) - 1;
  const int32_t* chosen = expert.data<int32_t>();
  int32_t* end_of = offsets.data<int32_t>();
  const auto is_local = [&](int64_t i) {
    return chosen[i] >= first && chosen[i] < first + experts;
  };
  std::fill_n(end_of, experts + 1, 0);
  // Counts of expert l are kept at l + 1, so that their running sum is where each expert begins.
  for (int64_t i = 0; i < rows; ++i)
    if (is_local(i)) ++end_of[chosen[i] - first + 1];
  for (int64_t e = 0; e < experts; ++e) end_of[e + 1] += end_of[e];
  std::fill_n(order.data<int32_t>(), rows, -1);
  // Each expert's begin moves to its end while its rows are placed; then all move back by one.
  for (int64_t i = 0; i < rows; ++i) {
    const int32_t at = is_local(i) ? end_of[chosen[i] - first]++ : -1;
    place.data<int32_t>()[i] = at;
    if (at >= 0) order.data<int32_t>()[at] = static_cast<int32_t>(i);
  }
  for (int64_t e = experts; e > 0; --e) end_of[e] = end_of[e - 1];
  end_of[0] = 0;
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
