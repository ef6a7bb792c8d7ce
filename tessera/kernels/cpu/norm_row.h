// What norms do with one row, or with a rank's part of it.
#pragma once

#include <cstdint>

#include "tessera/kernels/cpu/math.h"
#include "tessera/kernels/specs.h"
#include "tessera/tensor/view.h"

namespace tessera::cpu {

/// Rows that one partial sum of weight gradients covers: fixed, so sums do not depend on threads.
constexpr std::int64_t kRowsPerPartial = 64;

inline std::int64_t partials_for(std::int64_t rows) {
  return (rows + kRowsPerPartial - 1) / kRowsPerPartial;
}

template <class A>
struct Moments {
  A mean = 0;     ///< 0 for rms
  A squares = 0;  ///< the sum of squares about the mean
};

template <class T, class A = Accumulator<T>>
Moments<A> moments_of(const T* x, std::int64_t n, NormKind kind) {
  A mean = 0;
  if (kind == NormKind::layer) {
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

/// stats = mean and 1/deviation of a row of n channels.
template <class A>
void store_stats(A* stats, const Moments<A>& moments, std::int64_t n, const NormSpec& spec) {
  stats[0] = moments.mean;
  stats[1] = A(1) / std::sqrt(moments.squares / static_cast<A>(n) + static_cast<A>(spec.epsilon));
}

/// The weights w and, unless null, biases b of a row's channels. Passed by value: a loop that
/// writes floats then knows that it does not write to the offset.
template <class T>
struct NormWeights {
  using A = Accumulator<T>;
  NormWeights(const ConstView& weight, const ConstView& bias, const NormSpec& spec)
      : w(weight.data<T>()),
        b(bias ? bias.data<T>() : nullptr),
        offset(spec.one_plus_weight ? A(1) : A(0)) {}
  /// What channel j is multiplied by.
  A factor(std::int64_t j) const { return load(w[j]) + offset; }
  const T* w;
  const T* b;
  A offset;
};

template <class T, class A = Accumulator<T>>
void apply_norm(T* y, const A* stats, const T* x, NormWeights<T> weights, std::int64_t n) {
  const A mean = stats[0];
  const A rstd = stats[1];
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

// With g = dy factor and h = (x - mean) rstd: dx = rstd (g - mean(g) - h mean(g h)); RMS norm lacks
// the mean(g) term.
template <class A>
struct GradientSums {
  A g = 0;
  A gh = 0;
};

/// Adds to dw and db, and gives the sums over the row.
template <class T, class A = Accumulator<T>>
GradientSums<A> sum_gradients(A* dw, A* db, const T* dy, const T* x, const A* stats,
                              NormWeights<T> weights, std::int64_t n) {
  const A mean = stats[0];
  const A rstd = stats[1];
  A sum_g = 0;
  A sum_gh = 0;
#pragma omp simd reduction(+ : sum_g, sum_gh)
  for (std::int64_t j = 0; j < n; ++j) {
    const A h = (load(x[j]) - mean) * rstd;
    const A g = load(dy[j]) * weights.factor(j);
    sum_g += g;
    sum_gh += g * h;
    dw[j] += load(dy[j]) * h;
    db[j] += load(dy[j]);
  }
  return {sum_g, sum_gh};
}

/// `sums` are of the whole row, which has `channels` channels; n of them are here.
template <class T, class A = Accumulator<T>>
void input_gradient(T* dx, const T* dy, const T* x, const A* stats, NormWeights<T> weights,
                    std::int64_t n, const GradientSums<A>& sums, std::int64_t channels,
                    NormKind kind, bool accumulate) {
  const A mean = stats[0];
  const A rstd = stats[1];
  const A mean_g = kind == NormKind::layer ? sums.g / static_cast<A>(channels) : A(0);
  const A mean_gh = sums.gh / static_cast<A>(channels);
#pragma omp simd
  for (std::int64_t j = 0; j < n; ++j) {
    const A h = (load(x[j]) - mean) * rstd;
    const A g = load(dy[j]) * weights.factor(j);
    const A value = rstd * (g - mean_g - h * mean_gh);
    store<T>(dx[j], accumulate ? load(dx[j]) + value : value);
  }
}

/// out[j] (+)= the sum over partials, in their order.
template <class D, class A>
void sum_partials(const View& out, const A* partials, std::int64_t count, std::int64_t stride,
                  std::int64_t n, bool accumulate) {
  D* to = out.data<D>();
  for (std::int64_t j = 0; j < n; ++j) {
    A sum = 0;
    for (std::int64_t p = 0; p < count; ++p) sum += partials[p * stride + j];
    store<D>(to[j],
             static_cast<Accumulator<D>>(sum) + (accumulate ? load(to[j]) : Accumulator<D>(0)));
  }
}

/// dw and, where given, db from the partials [rows / kRowsPerPartial, 2, n].
template <class A>
void finish_weight_gradients(const View& dw, const View& db, const A* partials, std::int64_t rows,
                             std::int64_t n, bool accumulate) {
  dispatch_float(dw.dtype(), "norm_backward", [&]<class D>(TypeTag<D>) {
    sum_partials<D>(dw, partials, partials_for(rows), 2 * n, n, accumulate);
    if (db) sum_partials<D>(db, partials + n, partials_for(rows), 2 * n, n, accumulate);
  });
}

}  // namespace tessera::cpu
