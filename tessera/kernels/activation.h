// Activation functions and their derivatives, written once for all backends. To add one, add an
// enumerator to base/activation.h and a formula to each of the two switches below; kernels, layers
// and tests pick it up, and a missing case does not compile.
//
//   gelu          x Phi(x), Phi in its tanh form      quick_gelu    x sigmoid(1.702 x)
//   gelu_exact    x Phi(x) with erf                   silu          x sigmoid(x)
//   relu          max(x, 0)                           squared_relu  max(x, 0)^2
//
// The formulas use the elementary functions of a backend, its `Math`: static functions of an
// accumulator (f32 or f64), the only part that CPU and GPU do not share.
//   sigmoid(x)              1 / (1 + e^-x)
//   normal_cdf(x)           Phi(x), with full relative accuracy in the left tail too
//   normal_density(x)       Phi'(x)
//   gelu(x), gelu_slope(x)  the tanh form, which the epilogues of matrix products use as well
#pragma once

#include <cstddef>
#include <limits>
#include <type_traits>
#include <utility>

#include "tessera/base/activation.h"
#include "tessera/base/host_device.h"

namespace tessera {

constexpr double kGeluScale = 0.79788456080286535588;  ///< sqrt(2 / pi), in the tanh form
constexpr double kGeluCubic = 0.044715;                ///< coefficient of x^3 in the tanh form
constexpr double kQuickGeluScale = 1.702;

/// The activation is a template argument, so the switches are resolved at compile time and the
/// loops that call these functions have no branch on the kind.
template <Activation kActivation, class Math>
struct ActivationFunction {
  /// factor act(x). The factor is multiplied first, so that the product in a gated unit is always
  /// rounded in the order ((factor x) gate).
  template <class A>
  TESSERA_HOST_DEVICE static A times(A factor, A x) {
    const A positive = x < A(0) ? A(0) : x;  // NaN is kept: the comparison is false
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

  /// act(x); the factor 1 is exact.
  template <class A>
  TESSERA_HOST_DEVICE static A value(A x) {
    return times(A(1), x);
  }

  /// dy act'(x). ReLU has slope 0 at 0, as in PyTorch. NaN in x gives NaN, except for relu, which
  /// passes dy on.
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
  // Gradient of x sigmoid(c x), with z = c x and s = sigmoid(z): dy s (1 + z (1 - s)). c cancels:
  // d/dx = s + x c s (1 - s) = s + z s (1 - s).
  template <class A>
  TESSERA_HOST_DEVICE static A sigmoid_gradient(A dy, A z) {
    const A s = Math::sigmoid(z);
    return dy * s * (A(1) + z * (A(1) - s));
  }
};

/// What a gated unit makes of its inputs before act(gate) up, and of the gradients with respect to
/// them: nothing.
struct PlainGate {
  template <class A>
  TESSERA_HOST_DEVICE A gate(A g) const {
    return g;
  }
  template <class A>
  TESSERA_HOST_DEVICE A up(A u) const {
    return u;
  }
  template <class A>
  TESSERA_HOST_DEVICE A gate_gradient(A d, A /*g*/) const {
    return d;
  }
  template <class A>
  TESSERA_HOST_DEVICE A up_gradient(A d, A /*u*/) const {
    return d;
  }
};

/// The same with the limits of an ActivationSpec. At a limit the gradient passes, as in PyTorch.
/// NaN stays NaN: comparisons with it are false.
template <class A>
struct LimitedGate {
  explicit LimitedGate(const ActivationSpec& spec)
      : clamp(spec.clamp > 0 ? static_cast<A>(spec.clamp) : std::numeric_limits<A>::infinity()),
        offset(static_cast<A>(spec.up_offset)) {}
  TESSERA_HOST_DEVICE A gate(A g) const { return g > clamp ? clamp : g; }
  TESSERA_HOST_DEVICE A up(A u) const {
    return (u > clamp ? clamp : u < -clamp ? -clamp : u) + offset;
  }
  TESSERA_HOST_DEVICE A gate_gradient(A d, A g) const { return g > clamp ? A(0) : d; }
  TESSERA_HOST_DEVICE A up_gradient(A d, A u) const { return u > clamp || u < -clamp ? A(0) : d; }
  A clamp, offset;
};

/// Calls f(PlainGate or LimitedGate<A>).
template <class A, class F>
void dispatch_gate(const ActivationSpec& spec, F&& f) {
  if (spec.is_plain())
    f(PlainGate{});
  else
    f(LimitedGate<A>(spec));
}

/// An activation as a type, to be passed to generic lambdas.
template <Activation kActivation>
using ActivationTag = std::integral_constant<Activation, kActivation>;

/// Calls f(ActivationTag<...>{}) for a run-time activation: compares it with each enumerator, and
/// calls f for the one that is equal.
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
