// Activation functions and their derivatives, once for all backends. A new one is an enumerator of
// base/activation.h and a formula in each of the two switches below: kernels, layers and tests take
// it from there, and a switch that lacks it does not compile.
//
// Formulas are written in the elementary functions of a backend, its `Math`: static functions of an
// accumulator (f32 or f64), which are all that CPU and GPU do not have in common.
//   sigmoid(x)              1 / (1 + e^-x)
//   normal_cdf(x)           Phi(x), accurate relative to its size in the left tail too
//   normal_density(x)       Phi'(x)
//   gelu(x), gelu_slope(x)  the tanh form, which the epilogues of matrix products have as well
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

#include "tessera/base/activation.h"
#include "tessera/base/host_device.h"

namespace tessera {

constexpr double kGeluScale = 0.79788456080286535588;  ///< sqrt(2 / pi), of the tanh form
constexpr double kGeluCubic = 0.044715;                ///< of the tanh form
constexpr double kQuickGeluScale = 1.702;

template <Activation kActivation, class Math>
struct ActivationFunction {
  /// factor act(x). The factor comes first, so that what a gated unit multiplies is rounded in one
  /// order: ((factor x) gate).
  template <class A>
  TESSERA_HOST_DEVICE static A times(A factor, A x) {
    const A positive = x < A(0) ? A(0) : x;  // NaN stays
    switch (kActivation) {
      case Activation::gelu: return factor * Math::gelu(x);
      case Activation::gelu_exact: return factor * x * Math::normal_cdf(x);
      case Activation::quick_gelu: return factor * x * Math::sigmoid(A(kQuickGeluScale) * x);
      case Activation::silu: return factor * x * Math::sigmoid(x);
      case Activation::relu: return factor * positive;
      case Activation::squared_relu: return factor * positive * positive;
    }
    return x;
  }

  template <class A>
  TESSERA_HOST_DEVICE static A value(A x) {
    return times(A(1), x);
  }

  /// dy act'(x). ReLU has slope 0 at 0, as in PyTorch.
  template <class A>
  TESSERA_HOST_DEVICE static A gradient(A dy, A x) {
    switch (kActivation) {
      case Activation::gelu: return dy * Math::gelu_slope(x);
      case Activation::gelu_exact: return dy * (Math::normal_cdf(x) + x * Math::normal_density(x));
      case Activation::quick_gelu: return sigmoid_gradient(dy, A(kQuickGeluScale) * x);
      case Activation::silu: return sigmoid_gradient(dy, x);
      case Activation::relu: return x <= A(0) ? A(0) : dy;
      case Activation::squared_relu: return x <= A(0) ? A(0) : dy * A(2) * x;
    }
    return dy;
  }

 private:
  // Of x sigmoid(c x), with z = c x: dy s (1 + z (1 - s)).
  template <class A>
  TESSERA_HOST_DEVICE static A sigmoid_gradient(A dy, A z) {
    const A s = Math::sigmoid(z);
    return dy * s * (A(1) + z * (A(1) - s));
  }
};

template <Activation kActivation>
using ActivationTag = std::integral_constant<Activation, kActivation>;

/// Calls f(ActivationTag<...>{}) with the activation that is known at run time.
template <class F>
void dispatch_activation(Activation activation, F&& f) {
  const auto call_if = [&]<Activation kActivation>(ActivationTag<kActivation> tag) {
    if (activation == kActivation) f(tag);
  };
  [&]<std::size_t... kIndex>(std::index_sequence<kIndex...>) {
    (call_if(ActivationTag<kActivations[kIndex]>{}), ...);
  }
  (std::make_index_sequence<kActivations.size()>{});
}

}  // namespace tessera
