// Layer norm and RMS norm, alone and fused with the residual addition and dropout before them.
#include <algorithm>
#include <cmath>

#include "tessera/kernels/cpu/cpu_kernels.h"
#include "tessera/kernels/cpu/dropout_row.h"
#include "tessera/kernels/cpu/math.h"
#include "tessera/kernels/cpu/parallel.h"

namespace tessera::cpu {
namespace {

using std::int64_t;

// Rows that one partial sum of weight gradients covers: fixed, so sums do not depend on threads.
constexpr int64_t kRowsPerPartial = 64;

// [N, C] or [N, G, C] as numbered rows.
struct Rows {
  explicit Rows(const ConstView& x)
      : count(x.rank() == 2 ? x.dim(0) : x.dim(0) * x.dim(1)),
        inner(x.rank() == 2 ? 1 : x.dim(1)),
        outer_stride(x.stride(0)),
        inner_stride(x.rank() == 2 ? 0 : x.stride(1)) {}
  int64_t offset(int64_t row) const {
    return row / inner * outer_stride + row % inner * inner_stride;
  }
  int64_t count, inner, outer_stride, inner_stride;
};

template <class T, class A = Accumulator<T>>
void row_stats(A* stats, const T* x, int64_t n, const NormSpec& spec) {
  A mean = 0;
  if (spec.kind == NormKind::layer) {
#pragma omp simd reduction(+ : mean)
    for (int64_t j = 0; j < n; ++j) mean += load(x[j]);
    mean /= static_cast<A>(n);
  }
  A squares = 0;
#pragma omp simd reduction(+ : squares)
  for (int64_t j = 0; j < n; ++j) {
    const A centred = load(x[j]) - mean;
    squares += centred * centred;
  }
  stats[0] = mean;
  stats[1] = A(1) / std::sqrt(squares / static_cast<A>(n) + static_cast<A>(spec.epsilon));
}

template <class T, class A = Accumulator<T>>
void norm_row(T* y, A* stats, const T* x, const T* w, const T* b, int64_t n, const NormSpec& spec) {
  row_stats(stats, x, n, spec);
  const A mean = stats[0];
  const A rstd = stats[1];
  if (b) {
#pragma omp simd
    for (int64_t j = 0; j < n; ++j)
      store<T>(y[j], (load(x[j]) - mean) * rstd * load(w[j]) + load(b[j]));
  } else {
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) store<T>(y[j], (load(x[j]) - mean) * rstd * load(w[j]));
  }
}

// With g = dy w and h = (x - mean) rstd: dx = rstd (g - mean(g) - h mean(g h)); RMS norm lacks the
// mean(g) term.
template <class T, class A = Accumulator<T>>
void norm_row_backward(T* dx, A* dw, A* db, const T* dy, const T* x, const A* stats, const T* w,
                       int64_t n, NormKind kind, bool accumulate) {
  const A mean = stats[0];
  const A rstd = stats[1];
  A sum_g = 0;
  A sum_gh = 0;
#pragma omp simd reduction(+ : sum_g, sum_gh)
  for (int64_t j = 0; j < n; ++j) {
    const A h = (load(x[j]) - mean) * rstd;
    const A g = load(dy[j]) * load(w[j]);
    sum_g += g;
    sum_gh += g * h;
    dw[j] += load(dy[j]) * h;
    db[j] += load(dy[j]);
  }
  const A mean_g = kind == NormKind::layer ? sum_g / static_cast<A>(n) : A(0);
  const A mean_gh = sum_gh / static_cast<A>(n);
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    const A h = (load(x[j]) - mean) * rstd;
    const A g = load(dy[j]) * load(w[j]);
    const A value = rstd * (g - mean_g - h * mean_gh);
    store<T>(dx[j], accumulate ? load(dx[j]) + value : value);
  }
}

// out[j] (+)= the sum over partials, in their order.
template <class D, class A>
void sum_partials(const View& out, const A* partials, int64_t count, int64_t stride, int64_t n,
                  bool accumulate) {
  D* to = out.data<D>();
  for (int64_t j = 0; j < n; ++j) {
    A sum = 0;
    for (int64_t p = 0; p < count; ++p) sum += partials[p * stride + j];
    store<D>(to[j],
             static_cast<Accumulator<D>>(sum) + (accumulate ? load(to[j]) : Accumulator<D>(0)));
  }
}

}  // namespace

void CpuKernels::do_norm_forward(Stream&, View y, View stats, ConstView x, ConstView w, ConstView b,
                                 const NormSpec& spec) {
  dispatch_float(x.dtype(), "norm_forward", [&]<class T>(TypeTag<T>) {
    const Rows from(x);
    const Rows to(y);
    const int64_t n = x.dim(-1);
    parallel_pieces(threads_, from.count, rows_per_piece(n), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        norm_row<T>(y.data<T>() + to.offset(i), stats.data<Accumulator<T>>() + 2 * i,
                    x.data<T>() + from.offset(i), w.data<T>(), b ? b.data<T>() : nullptr, n, spec);
    });
  });
}

void CpuKernels::do_add_norm_forward(Stream&, View y, View r, View stats, ConstView x,
                                     ConstView branch, ConstView w, ConstView b,
                                     const NormSpec& spec, const DropoutSpec& dropout) {
  dispatch_float(x.dtype(), "add_norm_forward", [&]<class T>(TypeTag<T>) {
    const int64_t n = x.dim(1);
    parallel_pieces(threads_, x.dim(0), rows_per_piece(n), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        T* sum = r.data<T>() + i * n;
        add_dropout_row<T>(sum, x.data<T>() + i * n, branch.data<T>() + i * n, i, n, dropout);
        norm_row<T>(y.data<T>() + i * n, stats.data<Accumulator<T>>() + 2 * i, sum, w.data<T>(),
                    b ? b.data<T>() : nullptr, n, spec);
      }
    });
  });
}

std::size_t CpuKernels::norm_workspace_bytes(int64_t rows, int64_t channels, DType dtype) const {
  const int64_t partials = (rows + kRowsPerPartial - 1) / kRowsPerPartial;
  return static_cast<std::size_t>(partials * 2 * channels) * size_of(accumulator_of(dtype));
}

void CpuKernels::do_norm_backward(Stream&, View dx, View dw, View db, ConstView dy, ConstView x,
                                  ConstView stats, ConstView w, const NormSpec& spec,
                                  bool accumulate_dx, bool accumulate_dw, Workspace workspace) {
  dispatch_float(x.dtype(), "norm_backward", [&]<class T>(TypeTag<T>) {
    using A = Accumulator<T>;
    const Rows from(x);
    const Rows to(dx);
    const Rows upstream(dy);
    const int64_t n = x.dim(-1);
    A* partials = static_cast<A*>(workspace.raw());
    parallel_pieces(threads_, from.count, kRowsPerPartial, [&](int64_t begin, int64_t end) {
      A* sums = partials + begin / kRowsPerPartial * 2 * n;
      std::fill_n(sums, 2 * n, A(0));
      for (int64_t i = begin; i < end; ++i)
        norm_row_backward<T>(dx.data<T>() + to.offset(i), sums, sums + n,
                             dy.data<T>() + upstream.offset(i), x.data<T>() + from.offset(i),
                             stats.data<A>() + 2 * i, w.data<T>(), n, spec.kind, accumulate_dx);
    });
    const int64_t count = (from.count + kRowsPerPartial - 1) / kRowsPerPartial;
    dispatch_float(dw.dtype(), "norm_backward", [&]<class D>(TypeTag<D>) {
      sum_partials<D>(dw, partials, count, 2 * n, n, accumulate_dw);
      if (db) sum_partials<D>(db, partials + n, count, 2 * n, n, accumulate_dw);
    });
  });
}

}  // namespace tessera::cpu
