// Elementary functions in forms that compilers vectorise (no branches, no calls), and loads and
// stores of any float type through its accumulator.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "tessera/base/dtype.h"
#include "tessera/kernels/activation.h"

namespace tessera::cpu {

/// Widens exactly: bf16 and f16 to f32, f32 and f64 unchanged.
template <class T>
inline Accumulator<T> load(const T& x) {
  return static_cast<Accumulator<T>>(x);
}

/// Rounds to nearest, ties to even.
template <class T>
inline void store(T& to, Accumulator<T> x) {
  to = static_cast<T>(x);
}

/// f64 calls the C library: it is for tests and reference runs, where accuracy matters more than
/// speed.
inline double exp_of(double x) { return std::exp(x); }

/// e^x in f32 with an error of about one unit in the last place; branch-free. Below -87.3 the
/// result is 0 (no subnormal results), above 88.7 infinity; NaN stays NaN, and -inf gives 0.
///
/// e^x = 2^n e^r with n = round(x / ln 2) and |r| <= ln(2) / 2; e^r = 1 + r + r^2 p(r), with the
/// polynomial p of Cephes' expf.
inline float exp_of(float x) {
  constexpr float kLargest = 88.72283f;
  const float clamped = x > kLargest ? kLargest : x;
  // Adding 1.5 x 2^23 rounds to an integer that then sits in the low mantissa bits.
  constexpr float kMagic = 12582912.0f;
  const float shifted = clamped * 1.44269504088896341f + kMagic;
  const float n = shifted - kMagic;
  // r = x - n ln 2, with ln 2 in two parts (Cody and Waite): n times the first is exact, so r keeps
  // its digits.
  float r = std::fma(n, -0.693359375f, clamped);
  r = std::fma(n, 2.12194440e-4f, r);
  float p = 1.9875691500e-4f;
  p = std::fma(p, r, 1.3981999507e-3f);
  p = std::fma(p, r, 8.3334519073e-3f);
  p = std::fma(p, r, 4.1665795894e-2f);
  p = std::fma(p, r, 1.6666665459e-1f);
  p = std::fma(p, r, 5.0000001201e-1f);
  p = std::fma(p, r * r, r) + 1.0f;
  const std::uint32_t exponent = detail::float_bits(shifted) - detail::float_bits(kMagic);
  // 2^n as the product of two powers of about n / 2: for n = 128 a single factor would overflow.
  const std::uint32_t half = static_cast<std::uint32_t>(static_cast<std::int32_t>(exponent) >> 1);
  const float first = detail::float_from_bits((half + 127u) << 23);
  const float second = detail::float_from_bits((exponent - half + 127u) << 23);
  const float y = p * first * second;
  // For x far below the range n does not fit and y is meaningless; the comparison discards it.
  const float finite = x < -87.33654f ? 0.0f : y;
  return x > kLargest ? std::numeric_limits<float>::infinity() : finite;
}

inline double tanh_of(double x) { return std::tanh(x); }

/// tanh(x) in f32 with an error of about two units in the last place; branch-free: both forms are
/// computed and one is selected.
inline float tanh_of(float x) {
  // x| < 0.625: x + x^3 p(x^2), with the polynomial of Cephes; the other form would cancel there.
  const float z = x * x;
  float p = -5.70498872745e-3f;
  p = std::fma(p, z, 2.06390887954e-2f);
  p = std::fma(p, z, -5.37397155531e-2f);
  p = std::fma(p, z, 1.33314422036e-1f);
  p = std::fma(p, z, -3.33332819422e-1f);
  const float near = std::fma(p * z, x, x);
  // Reaches +-1 exactly for large |x|, since e^2x becomes infinity or 0.
  const float far = 1.0f - 2.0f / (exp_of(2.0f * x) + 1.0f);
  return std::fabs(x) < 0.625f ? near : far;
}

/// The elementary functions behind kernels/activation.h, logit_cap.h, router.h and the epilogues of
/// gemm. A
/// is f32 or f64.
struct Math {
  template <class A>
  static A exp(A x) {
    return exp_of(x);
  }
  template <class A>
  static A log(A x) {
    return std::log(x);
  }
  template <class A>
  static A tanh(A x) {
    return tanh_of(x);
  }
  /// 1 / (1 + e^-x); for x << 0 e^-x is infinity and the result 0.
  template <class A>
  static A sigmoid(A x) {
    return A(1) / (A(1) + exp_of(-x));
  }

  /// Phi(x) = erfc(-x / sqrt(2)) / 2. erfc keeps its relative accuracy in the left tail, where 1 +
  /// erf would cancel.
  template <class A>
  static A normal_cdf(A x) {
    return A(0.5) * std::erfc(A(-M_SQRT1_2) * x);
  }
  /// Phi'(x) = e^(-x^2 / 2) / sqrt(2 pi).
  template <class A>
  static A normal_density(A x) {
    return A(0.5 * M_2_SQRTPI * M_SQRT1_2) * exp_of(A(-0.5) * x * x);
  }

  /// gelu(x) = x (1 + tanh(u)) / 2 with u = kGeluScale (x + kGeluCubic x^3). Computed as x
  /// sigmoid(z) with z = 2u: equal in exact arithmetic, and without the cancellation of 1 + tanh(u)
  /// in the left tail.
  template <class A>
  static A gelu_exponent(A x) {
    return A(2 * kGeluScale) * (x + A(kGeluCubic) * x * x * x);
  }
  template <class A>
  static A gelu(A x) {
    return x * sigmoid(gelu_exponent(x));
  }
  /// gelu'(x) = sigmoid(z) + x sigmoid'(z) dz/dx.
  template <class A>
  static A gelu_slope(A x) {
    const A z = gelu_exponent(x);
    const A slope = A(2 * kGeluScale) * (A(1) + A(3 * kGeluCubic) * x * x);
    // With e = e^-|z| and r = 1 / (1 + e): sigmoid(z) is r, or e r if z < 0, and sigmoid'(z) = e
    // r^2. Neither overflows nor cancels.
    const A e = exp_of(-std::fabs(z));
    const A r = A(1) / (A(1) + e);
    return (z < 0 ? e * r : r) + x * (e * r * r) * slope;
  }
};

}  // namespace tessera::cpu
