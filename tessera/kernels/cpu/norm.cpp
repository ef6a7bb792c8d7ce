// LayerNorm and RMSNorm, alone and fused with the residual addition and dropout before them.
//
//   LayerNorm  y = (x - mean) rstd w + b,  rstd = 1 / sqrt(var + epsilon)
//   RMSNorm    y = x rstd w (+ b),         rstd = 1 / sqrt(mean(x^2) + epsilon)
//
// x, y [N, C] or [N, G, C] with any row stride; stats [rows, 2] = mean, rstd. Threads share the
// rows, and the channels of a row are divided over vector lanes (norm_row.h).
#include <algorithm>

#include "tessera/kernels/cpu/cpu_kernels.h"
#include "tessera/kernels/cpu/dropout_row.h"
#include "tessera/kernels/cpu/norm_row.h"
#include "tessera/kernels/cpu/parallel.h"

namespace tessera::cpu {
namespace {

using std::int64_t;

// Numbers the rows of [N, C] or [N, G, C] consecutively: row = n G + g. The second form is used for
// norms of single heads (QK norm), whose rows may be a part of a wider matrix, so both strides are
// kept.
struct Rows {
  explicit Rows(const ConstView& x)
      : count(x.rank() == 2 ? x.dim(0) : x.dim(0) * x.dim(1)),
        inner(x.rank() == 2 ? 1 : x.dim(1)),
        outer_stride(x.stride(0)),
        inner_stride(x.rank() == 2 ? 0 : x.stride(1)) {}
  // For [N, C] inner is 1 and the second term 0.
  int64_t offset(int64_t row) const {
    return row / inner * outer_stride + row % inner * inner_stride;
  }
  int64_t count, inner, outer_stride, inner_stride;
};

// Statistics, then the row. y may be x: the statistics are complete before the first store.
template <class T, class A = Accumulator<T>>
void norm_row(T* y, A* stats, const T* x, const NormWeights<T>& weights, int64_t n,
              const NormSpec& spec) {
  store_stats(stats, moments_of(x, n, spec.kind), n, spec);
  apply_norm(y, stats, x, weights, n);
}

// Two passes over the row; the first also adds its part of dw and db.
template <class T, class A = Accumulator<T>>
void norm_row_backward(T* dx, A* dw, A* db, const T* dy, const T* x, const A* stats,
                       const NormWeights<T>& weights, int64_t n, NormKind kind, bool accumulate) {
  // dy is read completely before the first store to dx, so dx may be dy.
  const GradientSums<A> sums = sum_gradients(dw, db, dy, x, stats, weights, n);
  input_gradient(dx, dy, x, stats, weights, n, sums, n, kind, accumulate);
}

}  // namespace

void CpuKernels::do_norm_forward(Stream&, View y, View stats, ConstView x, ConstView w, ConstView b,
                                 const NormSpec& spec) {
  dispatch_float(x.dtype(), "norm_forward", [&]<class T>(TypeTag<T>) {
    // x and y may have different row strides; stats are always contiguous.
    const Rows from(x);
    const Rows to(y);
    const int64_t n = x.dim(-1);
    const NormWeights<T> weights(w, b, spec);
    parallel_pieces(threads_, from.count, rows_per_piece(n), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        // stats [rows, 2]: mean and rstd of each row.
        norm_row<T>(y.data<T>() + to.offset(i), stats.data<Accumulator<T>>() + 2 * i,
                    x.data<T>() + from.offset(i), weights, n, spec);
    });
  });
}

// r = x + dropout(branch), y = norm(r). All tensors are contiguous [N, C]. The norm reads the
// rounded r, as a separate norm would, so recomputing y from r gives the same bits; r is still in
// the cache.
void CpuKernels::do_add_norm_forward(Stream&, View y, View r, View stats, ConstView x,
                                     ConstView branch, ConstView w, ConstView b,
                                     const NormSpec& spec, const DropoutSpec& dropout) {
  dispatch_float(x.dtype(), "add_norm_forward", [&]<class T>(TypeTag<T>) {
    const int64_t n = x.dim(1);
    const NormWeights<T> weights(w, b, spec);
    parallel_pieces(threads_, x.dim(0), rows_per_piece(n), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        // r of this row first, rounded to T; then the norm of it.
        T* sum = r.data<T>() + i * n;
        add_dropout_row<T>(sum, x.data<T>() + i * n, branch.data<T>() + i * n, i, n, dropout);
        norm_row<T>(y.data<T>() + i * n, stats.data<Accumulator<T>>() + 2 * i, sum, weights, n,
                    spec);
      }
    });
  });
}

// Partials acc [ceil(rows / 64), 2, channels]: dw and db of each group of 64 rows.
std::size_t CpuKernels::norm_workspace_bytes(int64_t rows, int64_t channels, DType dtype) const {
  return static_cast<std::size_t>(partials_for(rows) * 2 * channels) *
         element_size(accumulator_type(dtype));
}

// A piece is one group of kRowsPerPartial rows: it writes their dx and one partial of dw and db, so
// no two threads write to the same memory. The partials are added in order at the end.
void CpuKernels::do_norm_backward(Stream&, View dx, View dw, View db, ConstView dy, ConstView x,
                                  ConstView stats, ConstView w, const NormSpec& spec,
                                  bool accumulate_dx, bool accumulate_dw, Workspace workspace) {
  dispatch_float(x.dtype(), "norm_backward", [&]<class T>(TypeTag<T>) {
    using A = Accumulator<T>;
    const Rows from(x);
    const Rows to(dx);
    // dx, dy and x may each have their own row strides.
    const Rows upstream(dy);
    const int64_t n = x.dim(-1);
    const NormWeights<T> weights(w, {}, spec);
    A* partials = static_cast<A*>(workspace.raw());
    parallel_pieces(threads_, from.count, kRowsPerPartial, [&](int64_t begin, int64_t end) {
      // The partial of this piece: n sums of dw, then n sums of db. Rows are added in order.
      A* sums = partials + begin / kRowsPerPartial * 2 * n;
      std::fill_n(sums, 2 * n, A(0));
      for (int64_t i = begin; i < end; ++i)
        norm_row_backward<T>(dx.data<T>() + to.offset(i), sums, sums + n,
                             dy.data<T>() + upstream.offset(i), x.data<T>() + from.offset(i),
                             stats.data<A>() + 2 * i, weights, n, spec.kind, accumulate_dx);
    });
    finish_weight_gradients(dw, db, partials, from.count, n, accumulate_dw);
  });
}

}  // namespace tessera::cpu
