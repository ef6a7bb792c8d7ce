// Norms of rows whose channels are divided over R ranks, n = C / R on each (2-D tensor
// parallelism).
//
//   forward   norm_part_stats: mean_p and M2_p of the local channels; all-gather to [R, N, 2];
//             norm_part_forward: combine them, then normalise the local channels
//   backward  norm_part_sums: local sums of g and g h; all-reduce of [N, 2];
//             norm_part_backward: dx of the local channels
//
// Parts are combined with Chan's formula, which does not cancel, because M2_p is the sum of squares
// about the mean of its own part. Every rank combines the same numbers in the same order, so all
// ranks get the same statistics.
#include <algorithm>

#include "tessera/kernels/cpu/cpu_kernels.h"
#include "tessera/kernels/cpu/norm_row.h"
#include "tessera/kernels/cpu/parallel.h"

namespace tessera::cpu {
namespace {

using std::int64_t;

// The moments of a whole row from those of `count` parts of n channels each, which lie `stride`
// elements apart:
//   mean = average of mean_p,  M2 = sum_p (M2_p + n (mean_p - mean)^2)
// For RMS norm all means are 0 and M2 is the sum of squares.
template <class A>
Moments<A> together(const A* parts, int64_t count, int64_t stride, int64_t n) {
  Moments<A> whole;
  for (int64_t p = 0; p < count; ++p) whole.mean += parts[p * stride];
  whole.mean /= static_cast<A>(count);
  for (int64_t p = 0; p < count; ++p) {
    // Distance of the part's mean from the mean of the row. For equal parts the average of their
    // means is the mean of the row.
    const A apart = parts[p * stride] - whole.mean;
    whole.squares += parts[p * stride + 1] + static_cast<A>(n) * apart * apart;
  }
  return whole;
}

}  // namespace

// x [N, n] contiguous; part [N, 2].
void CpuKernels::do_norm_part_stats(Stream&, View part, ConstView x, const NormSpec& spec) {
  dispatch_float(x.dtype(), "norm_part_stats", [&]<class T>(TypeTag<T>) {
    using A = Accumulator<T>;
    const int64_t n = x.dim(1);
    parallel_pieces(threads_, x.dim(0), rows_per_piece(n), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        // Two passes over the local channels, as for whole rows.
        const Moments<A> moments = moments_of(x.data<T>() + i * x.stride(0), n, spec.kind);
        part.data<A>()[2 * i] = moments.mean;
        part.data<A>()[2 * i + 1] = moments.squares;
      }
    });
  });
}

// parts [R, N, 2]: the two moments of row i from rank p are at (p N + i) 2.
void CpuKernels::do_norm_part_forward(Stream&, View y, View stats, ConstView x, ConstView parts,
                                      ConstView w, ConstView b, const NormSpec& spec) {
  dispatch_float(x.dtype(), "norm_part_forward", [&]<class T>(TypeTag<T>) {
    using A = Accumulator<T>;
    const int64_t rows = x.dim(0);
    const int64_t n = x.dim(1);
    // Every rank computes the statistics of all N rows, which is cheap: 2 R numbers per row.
    const int64_t count = parts.dim(0);
    const NormWeights<T> weights(w, b, spec);
    parallel_pieces(threads_, rows, rows_per_piece(n), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        A* mine = stats.data<A>() + 2 * i;
        // Parts of one row are 2 N elements apart in [R, N, 2]; the statistics are of n R channels.
        store_stats(mine, together(parts.data<A>() + 2 * i, count, 2 * rows, n), n * count, spec);
        apply_norm<T>(y.data<T>() + i * y.stride(0), mine, x.data<T>() + i * x.stride(0), weights,
                      n);
      }
    });
  });
}

// sums [N, 2] = sum g and sum g h over the local channels. The weight gradients need no exchange: a
// channel's dw and db depend on that channel alone. Partials as in norm_backward.
void CpuKernels::do_norm_part_sums(Stream&, View sums, View dw, View db, ConstView dy, ConstView x,
                                   ConstView stats, ConstView w, const NormSpec& spec,
                                   bool accumulate_dw, Workspace workspace) {
  dispatch_float(x.dtype(), "norm_part_sums", [&]<class T>(TypeTag<T>) {
    using A = Accumulator<T>;
    const int64_t n = x.dim(1);
    const NormWeights<T> weights(w, {}, spec);
    A* partials = static_cast<A*>(workspace.raw());
    parallel_pieces(threads_, x.dim(0), kRowsPerPartial, [&](int64_t begin, int64_t end) {
      // The sums of a row are complete within a piece; only dw and db need partials.
      A* of_weights = partials + begin / kRowsPerPartial * 2 * n;
      std::fill_n(of_weights, 2 * n, A(0));
      for (int64_t i = begin; i < end; ++i) {
        const GradientSums<A> of_row =
            sum_gradients(of_weights, of_weights + n, dy.data<T>() + i * dy.stride(0),
                          x.data<T>() + i * x.stride(0), stats.data<A>() + 2 * i, weights, n);
        sums.data<A>()[2 * i] = of_row.g;
        sums.data<A>()[2 * i + 1] = of_row.gh;
      }
    });
    finish_weight_gradients(dw, db, partials, x.dim(0), n, accumulate_dw);
  });
}

// sums [N, 2] are those of the whole row; `channels` = C. dx may be dy.
void CpuKernels::do_norm_part_backward(Stream&, View dx, ConstView dy, ConstView x, ConstView stats,
                                       ConstView sums, ConstView w, int64_t channels,
                                       const NormSpec& spec, bool accumulate_dx) {
  dispatch_float(x.dtype(), "norm_part_backward", [&]<class T>(TypeTag<T>) {
    using A = Accumulator<T>;
    const int64_t n = x.dim(1);
    const NormWeights<T> weights(w, {}, spec);
    parallel_pieces(threads_, x.dim(0), rows_per_piece(n), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        // The sums were all-reduced by the caller, so every rank divides the same numbers by C.
        const GradientSums<A> of_row{sums.data<A>()[2 * i], sums.data<A>()[2 * i + 1]};
        input_gradient(dx.data<T>() + i * dx.stride(0), dy.data<T>() + i * dy.stride(0),
                       x.data<T>() + i * x.stride(0), stats.data<A>() + 2 * i, weights, n, of_row,
                       channels, spec.kind, accumulate_dx);
      }
    });
  });
}

}  // namespace tessera::cpu
