// Every op as plain loops in double: slow, and obviously right. Matrices are row-major.
// Attention has a file of its own.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "tessera/base/activation.h"
#include "tessera/kernels/specs.h"
#include "tests/support/tensors.h"

namespace tessera::test::reference {

using std::size_t;

// Matrix products
// ------------------------------------------------------------------------------------

/// op(a)[m, k] op(b)[k, n]
inline Values product(const Values& a, const Values& b, size_t m, size_t n, size_t k,
                      bool transpose_a = false, bool transpose_b = false) {
  Values d(m * n);
  for (size_t i = 0; i < m; ++i)
    for (size_t j = 0; j < n; ++j)
      for (size_t l = 0; l < k; ++l)
        d[i * n + j] += (transpose_a ? a[l * m + i] : a[i * k + l]) *
                        (transpose_b ? b[j * k + l] : b[l * n + j]);
  return d;
}

inline Values column_sum(const Values& x, size_t columns) {
  Values sums(columns);
  for (size_t i = 0; i < x.size(); ++i) sums[i % columns] += x[i];
  return sums;
}

/// f(x, y) for each element.
template <class F>
Values each(const Values& x, const Values& y, F&& f) {
  Values result(x.size());
  for (size_t i = 0; i < x.size(); ++i) result[i] = f(x[i], y[i]);
  return result;
}
inline Values sum(const Values& x, const Values& y) {
  return each(x, y, [](double a, double b) { return a + b; });
}

// Activations
// ----------------------------------------------------------------------------------------

inline double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

inline double gelu(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}
inline double gelu_slope(double x) {
  const double t = std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * std::sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
}

inline double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }
inline double normal_density(double x) { return std::exp(-x * x / 2) / std::sqrt(2 * M_PI); }

inline double activation(Activation kind, double x) {
  switch (kind) {
    case Activation::gelu: return gelu(x);
    case Activation::gelu_exact: return x * normal_cdf(x);
    case Activation::quick_gelu: return x * sigmoid(1.702 * x);
    case Activation::silu: return x * sigmoid(x);
    case Activation::relu: return std::max(x, 0.0);
    case Activation::squared_relu: return std::max(x, 0.0) * std::max(x, 0.0);
  }
  return NAN;
}
inline double activation_slope(Activation kind, double x) {
  // Of x sigmoid(c x).
  const auto swish_slope = [x](double c) {
    const double s = sigmoid(c * x);
    return s + c * x * s * (1 - s);
  };
  switch (kind) {
    case Activation::gelu: return gelu_slope(x);
    case Activation::gelu_exact: return normal_cdf(x) + x * normal_density(x);
    case Activation::quick_gelu: return swish_slope(1.702);
    case Activation::silu: return swish_slope(1);
    case Activation::relu: return x > 0 ? 1 : 0;
    case Activation::squared_relu: return 2 * std::max(x, 0.0);
  }
  return NAN;
}

/// x: rows of [gate | up], f wide each.
/// What a gated activation reads for its gate, and for up, and their slopes.
struct Limited {
  double value, slope;
};
inline Limited limited_gate(const ActivationSpec& spec, double x) {
  if (spec.clamp > 0 && x > spec.clamp) return {spec.clamp, 0};
  return {x, 1};
}
inline Limited limited_up(const ActivationSpec& spec, double x) {
  if (spec.clamp > 0 && std::fabs(x) > spec.clamp)
    return {std::copysign(spec.clamp, x) + spec.up_offset, 0};
  return {x + spec.up_offset, 1};
}

inline Values gated_activation(Activation kind, const Values& x, size_t f) {
  Values y;
  for (size_t row = 0; row < x.size(); row += 2 * f)
    for (size_t j = 0; j < f; ++j) y.push_back(activation(kind, x[row + j]) * x[row + f + j]);
  return y;
}
inline Values gated_activation_backward(Activation kind, const Values& dy, const Values& x,
                                        size_t f) {
  Values dx(x.size());
  for (size_t i = 0; i < dy.size(); ++i) {
    const size_t gate = i / f * 2 * f + i % f;
    const size_t up = gate + f;
    dx[gate] = dy[i] * x[up] * activation_slope(kind, x[gate]);
    dx[up] = dy[i] * activation(kind, x[gate]);
  }
  return dx;
}

/// x: rows of one head each, `width` channels; cos and sin: rows of r angles, one per row of x.
inline Values rope(Values x, size_t width, const Values& cos, const Values& sin, size_t r,
                   RopePairs pairs) {
  const bool halves = pairs == RopePairs::halves;
  for (size_t row = 0; row < x.size() / width; ++row)
    for (size_t j = 0; j < r; ++j) {
      double& x1 = x[row * width + (halves ? j : 2 * j)];
      double& x2 = x[row * width + (halves ? r + j : 2 * j + 1)];
      const double c = cos[row * r + j];
      const double s = sin[row * r + j];
      const double turned = x1 * c - x2 * s;
      x2 = x2 * c + x1 * s;
      x1 = turned;
    }
  return x;
}

// Logits
// ---------------------------------------------------------------------------------------------

inline double scaled_logit(double x, const LogitSpec& spec) {
  return spec.softcap > 0 ? spec.softcap * std::tanh(spec.scale * x / spec.softcap)
                          : spec.scale * x;
}
/// Of scaled_logit, at its value y.
inline double logit_slope(double y, const LogitSpec& spec) {
  const double t = spec.softcap > 0 ? y / spec.softcap : 0;
  return spec.scale * std::max(0.0, 1 - t * t);
}

// Norms
// ----------------------------------------------------------------------------------------------

struct Norm {
  Values y, stats;
};
/// What channels are multiplied by.
inline Values norm_factors(Values w, const NormSpec& spec) {
  for (double& each : w) each += spec.one_plus_weight ? 1 : 0;
  return w;
}
inline Norm norm(const Values& x, const Values& weights, const Values& b, const NormSpec& spec) {
  const Values w = norm_factors(weights, spec);
  const size_t n = w.size();
  Norm result;
  for (size_t row = 0; row < x.size(); row += n) {
    double mean = 0;
    double square = 0;
    if (spec.kind == NormKind::layer)
      for (size_t j = 0; j < n; ++j) mean += x[row + j] / static_cast<double>(n);
    for (size_t j = 0; j < n; ++j)
      square += (x[row + j] - mean) * (x[row + j] - mean) / static_cast<double>(n);
    const double rstd = 1 / std::sqrt(square + spec.epsilon);
    for (size_t j = 0; j < n; ++j)
      result.y.push_back((x[row + j] - mean) * rstd * w[j] + (b.empty() ? 0 : b[j]));
    result.stats.insert(result.stats.end(), {mean, rstd});
  }
  return result;
}

struct NormGradients {
  Values dx, dw, db;
};
/// dx by the chain rule through mean and variance, term by term.
inline NormGradients norm_backward(const Values& dy, const Values& x, const Values& weights,
                                   const NormSpec& spec) {
  const Values w = norm_factors(weights, spec);
  const size_t n = w.size();
  const auto count = static_cast<double>(n);
  const Values stats = norm(x, weights, {}, spec).stats;
  NormGradients g{Values(x.size()), Values(n), Values(n)};
  for (size_t row = 0; row < x.size(); row += n) {
    const double mean = stats[2 * (row / n)];
    const double rstd = stats[2 * (row / n) + 1];
    double d_rstd = 0;
    double d_centred_sum = 0;
    for (size_t j = 0; j < n; ++j) {
      d_rstd += dy[row + j] * w[j] * (x[row + j] - mean);
      g.dw[j] += dy[row + j] * (x[row + j] - mean) * rstd;
      g.db[j] += dy[row + j];
    }
    const double d_variance = d_rstd * -0.5 * rstd * rstd * rstd;
    for (size_t j = 0; j < n; ++j) {
      g.dx[row + j] = dy[row + j] * w[j] * rstd + d_variance * 2 * (x[row + j] - mean) / count;
      d_centred_sum += g.dx[row + j];
    }
    if (spec.kind == NormKind::layer)  // x - mean: the mean's part goes to all alike
      for (size_t j = 0; j < n; ++j) g.dx[row + j] -= d_centred_sum / count;
  }
  return g;
}

}  // namespace tessera::test::reference
