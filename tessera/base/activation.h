// The activation functions of feed-forward layers, by name. Plain data that options and kernels
// share; the formulas are in kernels/activation.h.
#pragma once

#include <string_view>

#include "tessera/base/enumerators.h"

namespace tessera {

enum class Activation {
  gelu,          ///< x Phi(x) in its tanh form, with Phi the normal distribution (GPT-2, Gemma)
  gelu_exact,    ///< x Phi(x) with erf
  quick_gelu,    ///< x sigmoid(1.702 x) (CLIP)
  silu,          ///< x sigmoid(x); the gate of SwiGLU
  relu,          ///< max(x, 0)
  squared_relu,  ///< max(x, 0)^2 (Primer, Nemotron)
};

/// The enumerator's name; empty for a number that is none.
constexpr std::string_view to_string(Activation activation) {
  switch (activation) {
    case Activation::gelu: return "gelu";
    case Activation::gelu_exact: return "gelu_exact";
    case Activation::quick_gelu: return "quick_gelu";
    case Activation::silu: return "silu";
    case Activation::relu: return "relu";
    case Activation::squared_relu: return "squared_relu";
  }
  return {};
}

/// The activation of a feed-forward layer. A gated one, act(gate) up, may limit what it reads:
/// act(min(gate, clamp)) (min(max(up, -clamp), clamp) + up_offset), as gpt-oss does.
struct ActivationSpec {
  constexpr ActivationSpec(Activation function)  // NOLINT(google-explicit-constructor)
      : kind(function) {}
  constexpr ActivationSpec(Activation function, double limit, double offset)
      : kind(function), clamp(limit), up_offset(offset) {}

  Activation kind;
  double clamp = 0.0;  ///< 0: none
  double up_offset = 0.0;
  /// Whether it reads its inputs as they are.
  bool is_plain() const { return clamp == 0.0 && up_offset == 0.0; }
};

inline constexpr auto kActivations = enumerators<Activation>();

}  // namespace tessera
