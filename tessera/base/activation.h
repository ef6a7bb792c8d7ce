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

inline constexpr auto kActivations = enumerators<Activation>();

}  // namespace tessera
