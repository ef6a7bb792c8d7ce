// Scalar functions of the kernels, loads and stores of every float type through its accumulator
// (f32 for 16-bit types and f32, f64 for f64), and reductions over a warp or a block in a fixed
// order. Fixed orders make every sum bitwise reproducible.
#pragma once

#include <cmath>
#include <cstdint>

#include "tessera/base/dtype.h"
#include "tessera/kernels/activation.h"

namespace tessera::cuda {

// Widening is exact, rounding is to nearest even.
template <class T>
__device__ Accumulator<T> load(const T& x) {
  return static_cast<Accumulator<T>>(x);
}

template <class T>
__device__ void store(T& to, Accumulator<T> x) {
  to = static_cast<T>(x);
}

/// x = value, or x += value: added in the accumulator type and rounded once.
template <class T>
__device__ void contribute(T& x, Accumulator<T> value, bool accumulate) {
  store<T>(x, accumulate ? load(x) + value : value);
}

/// The functions that kernels/activation.h, logit_cap.h and router.h build on, accurate to the last
/// digits of the accumulator.
struct PreciseMath {
  template <class A>
  __device__ static A exp(A x) {
    return ::exp(x);
  }
  template <class A>
  __device__ static A log(A x) {
    return ::log(x);
  }
  template <class A>
  __device__ static A tanh(A x) {
    return ::tanh(x);
  }
  template <class A>
  __device__ static A sigmoid(A x) {
    return A(1) / (A(1) + ::exp(-x));
  }

  /// The normal distribution function, Phi(x) = erfc(-x / sqrt(2)) / 2. erfc keeps the digits of
  /// the left tail, where 1 + erf would cancel.
  template <class A>
  __device__ static A normal_cdf(A x) {
    return A(0.5) * erfc(A(-M_SQRT1_2) * x);
  }
  // phi(x) = e^(-x^2 / 2) / sqrt(2 pi).
  template <class A>
  __device__ static A normal_density(A x) {
    return A(0.5 * M_2_SQRTPI * M_SQRT1_2) * ::exp(A(-0.5) * x * x);
  }

  // The tanh form of GELU (Hendrycks and Gimpel): gelu(x) = x (1 + tanh(u)) / 2 with u = sqrt(2 /
  // pi) (x + 0.044715 x^3).
  template <class A>
  __device__ static A gelu_tanh(A x) {
    return ::tanh(A(kGeluScale) * (x + A(kGeluCubic) * x * x * x));
  }
  template <class A>
  __device__ static A gelu(A x) {
    return A(0.5) * x * (A(1) + gelu_tanh(x));
  }
  // gelu'(x) = (1 + t) / 2 + x (1 - t^2) u'(x) / 2 with t = tanh(u).
  template <class A>
  __device__ static A gelu_slope(A x) {
    const A t = gelu_tanh(x);
    const A slope = A(kGeluScale) * (A(1) + A(3 * kGeluCubic) * x * x);
    return A(0.5) * (A(1) + t) + A(0.5) * x * (A(1) - t * t) * slope;
  }
};

/// The same with a relative error of about 1e-6, for results that are rounded to 16 bits. The
/// hardware's special functions take a few instructions where the library's take tens. These
/// kernels are otherwise bandwidth-bound, and exact functions would make them compute-bound.
struct QuickMath {
  __device__ static float sigmoid(float x) { return __fdividef(1.0f, 1.0f + __expf(-x)); }

  // erfc has no hardware instruction; gelu_exact keeps the library's.
  __device__ static float normal_cdf(float x) { return PreciseMath::normal_cdf(x); }
  __device__ static float normal_density(float x) {
    return static_cast<float>(0.5 * M_2_SQRTPI * M_SQRT1_2) * __expf(-0.5f * x * x);
  }

  /// x sigmoid(2 u), since (1 + tanh(u)) / 2 = sigmoid(2 u).
  __device__ static float gelu(float x) {
    const float slope = static_cast<float>(2 * kGeluScale * kGeluCubic);
    return x * sigmoid(x * fmaf(slope * x, x, static_cast<float>(2 * kGeluScale)));
  }
  // With s = sigmoid(2 u): gelu'(x) = s + x s (1 - s) (2 u)'.
  __device__ static float gelu_slope(float x) {
    const float scale = static_cast<float>(2 * kGeluScale);
    const float cubic = static_cast<float>(2 * kGeluScale * kGeluCubic) * x * x;
    const float s = sigmoid(x * (scale + cubic));
    return fmaf(x * s * (1.0f - s), fmaf(3.0f, cubic, scale), s);
  }
};

/// The functions for results of type T: the rounding of 16-bit results hides the error of
/// QuickMath.
template <class T>
using MathFor = std::conditional_t<sizeof(T) == 2, QuickMath, PreciseMath>;

constexpr int kWarp = 32;
// Shuffles and ballots name all lanes: kernels call them only where the whole warp is converged.
constexpr unsigned kAllLanes = 0xffffffffu;

/// The sum over groups of kLanes neighbouring lanes, a power of two; all lanes of the warp must
/// call. A butterfly: every lane adds the same pairs, so that all lanes get the same bits.
template <int kLanes, class A>
__device__ A lanes_sum(A x) {
  for (int step = kLanes / 2; step > 0; step /= 2) x += __shfl_xor_sync(kAllLanes, x, step);
  return x;
}

template <class A>
__device__ A warp_sum(A x) {
  return lanes_sum<kWarp>(x);
}

// NaN is ignored unless it is this lane's own value: comparisons with it are false.
template <class A>
__device__ A warp_max(A x) {
  for (int step = kWarp / 2; step > 0; step /= 2) {
    const A other = __shfl_xor_sync(kAllLanes, x, step);
    x = other > x ? other : x;
  }
  return x;
}

/// Combines the values of a block's warps: every thread gets fold(...fold(start, warp 0)..., last
/// warp). x must be the same in all lanes of a warp; blockDim.x is a multiple of 32, at most 1024;
/// all threads must call. Each thread folds up to 32 values itself, which costs less than another
/// round of shuffles and barriers.
template <class A, class F>
__device__ A fold_warps(A x, A start, F&& fold) {
  __shared__ A of_warp[kWarp];
  if (threadIdx.x % kWarp == 0) of_warp[threadIdx.x / kWarp] = x;
  // All warps have written.
  __syncthreads();
  A result = start;
  for (unsigned warp = 0; warp < blockDim.x / kWarp; ++warp) result = fold(result, of_warp[warp]);
  __syncthreads();  // a later call overwrites of_warp
  return result;
}

/// Sum and maximum over a one-dimensional block, in every thread.
template <class A>
__device__ A block_sum(A x) {
  return fold_warps(warp_sum(x), A(0), [](A sum, A each) { return sum + each; });
}

template <class A>
__device__ A block_max(A x) {
  return fold_warps(warp_max(x), A(-INFINITY), [](A most, A each) { return fmax(most, each); });
}

}  // namespace tessera::cuda
