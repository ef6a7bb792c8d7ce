// Scalar functions of the kernels, loads and stores of any float type through its accumulator, and
// sums over the threads of a warp or a block in an order that never changes.
#pragma once

#include <cmath>
#include <cstdint>

#include "tessera/base/dtype.h"
#include "tessera/kernels/activation.h"

namespace tessera::cuda {

template <class T>
__device__ Accumulator<T> load(const T& x) {
  return static_cast<Accumulator<T>>(x);
}

template <class T>
__device__ void store(T& to, Accumulator<T> x) {
  to = static_cast<T>(x);
}

/// What x becomes when a value is added to it or takes its place.
template <class T>
__device__ void contribute(T& x, Accumulator<T> value, bool accumulate) {
  store<T>(x, accumulate ? load(x) + value : value);
}

/// What kernels/activation.h and logit_cap.h build on, to the last digits of the accumulator.
struct PreciseMath {
  template <class A>
  __device__ static A tanh(A x) {
    return ::tanh(x);
  }
  template <class A>
  __device__ static A sigmoid(A x) {
    return A(1) / (A(1) + exp(-x));
  }

  /// erfc keeps the digits of the left tail, where 1 + erf would cancel.
  template <class A>
  __device__ static A normal_cdf(A x) {
    return A(0.5) * erfc(A(-M_SQRT1_2) * x);
  }
  template <class A>
  __device__ static A normal_density(A x) {
    return A(0.5 * M_2_SQRTPI * M_SQRT1_2) * exp(A(-0.5) * x * x);
  }

  template <class A>
  __device__ static A gelu_tanh(A x) {
    return ::tanh(A(kGeluScale) * (x + A(kGeluCubic) * x * x * x));
  }
  template <class A>
  __device__ static A gelu(A x) {
    return A(0.5) * x * (A(1) + gelu_tanh(x));
  }
  template <class A>
  __device__ static A gelu_slope(A x) {
    const A t = gelu_tanh(x);
    const A slope = A(kGeluScale) * (A(1) + A(3 * kGeluCubic) * x * x);
    return A(0.5) * (A(1) + t) + A(0.5) * x * (A(1) - t * t) * slope;
  }
};

/// The same to about 1e-6, for what is rounded to 16 bits: the hardware's special functions instead
/// of the thirty instructions of an exact one.
struct QuickMath {
  __device__ static float sigmoid(float x) { return __fdividef(1.0f, 1.0f + __expf(-x)); }

  __device__ static float normal_cdf(float x) { return PreciseMath::normal_cdf(x); }
  __device__ static float normal_density(float x) {
    return static_cast<float>(0.5 * M_2_SQRTPI * M_SQRT1_2) * __expf(-0.5f * x * x);
  }

  /// With (1 + tanh(u)) / 2 = sigmoid(2 u).
  __device__ static float gelu(float x) {
    const float slope = static_cast<float>(2 * kGeluScale * kGeluCubic);
    return x * sigmoid(x * fmaf(slope * x, x, static_cast<float>(2 * kGeluScale)));
  }
  __device__ static float gelu_slope(float x) {
    const float scale = static_cast<float>(2 * kGeluScale);
    const float cubic = static_cast<float>(2 * kGeluScale * kGeluCubic) * x * x;
    const float s = sigmoid(x * (scale + cubic));
    return fmaf(x * s * (1.0f - s), fmaf(3.0f, cubic, scale), s);
  }
};

/// The functions for results of type T.
template <class T>
using MathFor = std::conditional_t<sizeof(T) == 2, QuickMath, PreciseMath>;

constexpr int kWarp = 32;
constexpr unsigned kAllLanes = 0xffffffffu;

/// Over groups of kLanes neighbours, a power of two; all lanes of the warp must call.
template <int kLanes, class A>
__device__ A lanes_sum(A x) {
  for (int step = kLanes / 2; step > 0; step /= 2) x += __shfl_xor_sync(kAllLanes, x, step);
  return x;
}

template <class A>
__device__ A warp_sum(A x) {
  return lanes_sum<kWarp>(x);
}

template <class A>
__device__ A warp_max(A x) {
  for (int step = kWarp / 2; step > 0; step /= 2) {
    const A other = __shfl_xor_sync(kAllLanes, x, step);
    x = other > x ? other : x;
  }
  return x;
}

/// Every thread of a block of whole warps gets what `fold` makes of `start` and the warps' values,
/// in their order; x is the same in all lanes of a warp, and all threads must call.
template <class A, class F>
__device__ A fold_warps(A x, A start, F&& fold) {
  __shared__ A of_warp[kWarp];
  if (threadIdx.x % kWarp == 0) of_warp[threadIdx.x / kWarp] = x;
  __syncthreads();
  A result = start;
  for (unsigned warp = 0; warp < blockDim.x / kWarp; ++warp) result = fold(result, of_warp[warp]);
  __syncthreads();  // the next call writes of_warp again
  return result;
}

template <class A>
__device__ A block_sum(A x) {
  return fold_warps(warp_sum(x), A(0), [](A sum, A each) { return sum + each; });
}

template <class A>
__device__ A block_max(A x) {
  return fold_warps(warp_max(x), A(-INFINITY), [](A most, A each) { return fmax(most, each); });
}

}  // namespace tessera::cuda
