// The activation functions of feed-forward layers, by name. Plain data that options and kernels
// share; the formulas are in kernels/activation.h.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

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

/// All of them, counted by their names, so that the list cannot miss one.
inline constexpr auto kActivations = [] {
  constexpr std::size_t count = [] {
    int named = 0;
    while (!to_string(static_cast<Activation>(named)).empty()) ++named;
    return static_cast<std::size_t>(named);
  }();
  std::array<Activation, count> all{};
  for (std::size_t i = 0; i < count; ++i) all[i] = static_cast<Activation>(i);
  return all;
}();

}  // namespace tessera
