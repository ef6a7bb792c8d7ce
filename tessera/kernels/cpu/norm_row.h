// Norms of one row, or of one rank's part of a row: moments, y = norm(x) w + b, and the gradients.
// Shared by norm.cpp (whole rows) and norm_parts.cpp (channels divided over ranks).
//
// All sums are in the accumulator A and reduced over vector lanes, whose number is fixed at compile
// time; a row is always summed by one thread.
#pragma once

#include <cstdint>

#include "tessera/kernels/cpu/math.h"
#include "tessera/kernels/specs.h"
#include "tessera/tensor/view.h"

namespace tessera::cpu {

/// Rows per partial sum of the weight gradients. A constant, so the order of the sums does not
/// depend on the number of threads; 64 rows keep the workspace at 1/32 of the size of x in
/// elements, and still give enough pieces for all threads.
constexpr std::int64_t kRowsPerPartial = 64;

// Number of partial sums; the last one may cover fewer rows.
inline std::int64_t partials_for(std::int64_t rows) {
  return (rows + kRowsPerPartial - 1) / kRowsPerPartial;
}

/// The first two moments of a row, or of a part of it.
template <class A>
struct Moments {
  A mean = 0;     ///< 0 for rms
  A squares = 0;  ///< the sum of squares about the mean
};

/// In two passes, the mean first: E[x^2] - mean^2 would cancel if the mean is large. The row is
/// still in L1 or L2 in the second pass. RMS norm needs only sum x^2.
template <class T, class A = Accumulator<T>>
Moments<A> moments_of(const T* x, std::int64_t n, NormKind kind) {
  A mean = 0;
  if (kind == NormKind::layer) {
    // A reduction over vector lanes: the number of lanes is part of the order of the sum, so
    // results may differ between builds for different instruction sets, but not between runs.
#pragma omp simd reduction(+ : mean)
    for (std::int64_t j = 0; j < n; ++j) mean += load(x[j]);
    mean /= static_cast<A>(n);
  }
  A squares = 0;
#pragma omp simd reduction(+ : squares)
  for (std::int64_t j = 0; j < n; ++j) {
    const A centred = load(x[j]) - mean;
    squares += centred * centred;
  }
  return {mean, squares};
}

/// stats[0] = mean, stats[1] = 1 / sqrt(squares / n + epsilon) of a row of n channels. The variance
/// is the biased one (divided by n), as in PyTorch.
template <class A>
void store_stats(A* stats, const Moments<A>& moments, std::int64_t n, const NormSpec& spec) {
  stats[0] = moments.mean;
  stats[1] = A(1) / std::sqrt(moments.squares / static_cast<A>(n) + static_cast<A>(spec.epsilon));
}

/// The weights w and, unless null, the biases b of a row's channels. Passed by value: the compiler
/// can then keep `offset` in a register, because no store to y can alias it.
template <class T>
struct NormWeights {
  using A = Accumulator<T>;
  NormWeights(const ConstView& weight, const ConstView& bias, const NormSpec& spec)
      : w(weight.data<T>()),
        b(bias ? bias.data<T>() : nullptr),
        offset(spec.one_plus_weight ? A(1) : A(0)) {}
  /// The factor of channel j: w, or 1 + w with one_plus_weight.
  A factor(std::int64_t j) const { return load(w[j]) + offset; }
  const T* w;
  const T* b;
  A offset;
};

/// y_j = (x_j - mean) rstd factor_j (+ b_j), rounded once. mean is 0 for RMS norm. y may be x.
template <class T, class A = Accumulator<T>>
void apply_norm(T* y, const A* stats, const T* x, NormWeights<T> weights, std::int64_t n) {
  const A mean = stats[0];
  const A rstd = stats[1];
  // Two loops, so that neither tests for a bias per element.
  if (weights.b) {
#pragma omp simd
    for (std::int64_t j = 0; j < n; ++j)
      store<T>(y[j], (load(x[j]) - mean) * rstd * weights.factor(j) + load(weights.b[j]));
  } else {
#pragma omp simd
    for (std::int64_t j = 0; j < n; ++j)
      store<T>(y[j], (load(x[j]) - mean) * rstd * weights.factor(j));
  }
}

/// Row sums of the backward. With g = dy factor and h = (x - mean) rstd,
///   dx = rstd (g - mean(g) - h mean(g h))
/// where RMS norm has no mean(g) term.
template <class A>
struct GradientSums {
  A g = 0;
  A gh = 0;
};

/// First pass of the backward over a row: dw_j += dy_j h_j and db_j += dy_j, and returns the sums
/// of g and g h over the n channels here. dw and db are partial sums [n] in A that belong to the
/// calling thread; db is always computed, and ignored if the norm has no bias.
template <class T, class A = Accumulator<T>>
GradientSums<A> sum_gradients(A* dw, A* db, const T* dy, const T* x, const A* stats,
                              NormWeights<T> weights, std::int64_t n) {
  const A mean = stats[0];
  const A rstd = stats[1];
  A sum_g = 0;
  A sum_gh = 0;
#pragma omp simd reduction(+ : sum_g, sum_gh)
  for (std::int64_t j = 0; j < n; ++j) {
    // h is recomputed from x and the statistics, so the forward stores no normalised copy of x.
    const A h = (load(x[j]) - mean) * rstd;
    const A g = load(dy[j]) * weights.factor(j);
    sum_g += g;
    sum_gh += g * h;
    // The partial sums of the weights are in A and belong to this thread, so no addition is lost to
    // rounding to T.
    dw[j] += load(dy[j]) * h;
    db[j] += load(dy[j]);
  }
  return {sum_g, sum_gh};
}

/// Second pass: dx (+)= rstd (g - mean(g) - h mean(g h)). `sums` are over the whole row of
/// `channels` channels, of which n are here. Element j of dy and x is read before dx[j] is written,
/// so dx may be either of them.
template <class T, class A = Accumulator<T>>
void input_gradient(T* dx, const T* dy, const T* x, const A* stats, NormWeights<T> weights,
                    std::int64_t n, const GradientSums<A>& sums, std::int64_t channels,
                    NormKind kind, bool accumulate) {
  const A mean = stats[0];
  const A rstd = stats[1];
  // The mean is over the whole row, although only n channels are here.
  const A mean_g = kind == NormKind::layer ? sums.g / static_cast<A>(channels) : A(0);
  const A mean_gh = sums.gh / static_cast<A>(channels);
#pragma omp simd
  for (std::int64_t j = 0; j < n; ++j) {
    const A h = (load(x[j]) - mean) * rstd;
    const A g = load(dy[j]) * weights.factor(j);
    const A value = rstd * (g - mean_g - h * mean_gh);
    // The old value is added in A, so an accumulated dx is rounded once per addition.
    store<T>(dx[j], accumulate ? load(dx[j]) + value : value);
  }
}

/// out[j] (+)= sum_p partials[p, j], in the order of p, with partials `stride` elements apart. Old
/// value and sum are added in the accumulator of D. On one thread: it reads 1/32 of the elements of
/// x.
template <class D, class A>
void sum_partials(const View& out, const A* partials, std::int64_t count, std::int64_t stride,
                  std::int64_t n, bool accumulate) {
  D* to = out.data<D>();
  for (std::int64_t j = 0; j < n; ++j) {
    // Columns outermost: the partials of a column are added in the order of the rows that they
    // cover.
    A sum = 0;
    for (std::int64_t p = 0; p < count; ++p) sum += partials[p * stride + j];
    store<D>(to[j],
             static_cast<Accumulator<D>>(sum) + (accumulate ? load(to[j]) : Accumulator<D>(0)));
  }
}

/// Finishes dw and, if given, db from the partials [partials_for(rows), 2, n]: dw first, then db.
template <class A>
void finish_weight_gradients(const View& dw, const View& db, const A* partials, std::int64_t rows,
                             std::int64_t n, bool accumulate) {
  dispatch_float(dw.dtype(), "norm_backward", [&]<class D>(TypeTag<D>) {
    sum_partials<D>(dw, partials, partials_for(rows), 2 * n, n, accumulate);
    if (db) sum_partials<D>(db, partials + n, partials_for(rows), 2 * n, n, accumulate);
  });
}

}  // namespace tessera::cpu
