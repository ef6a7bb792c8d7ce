#include "tessera/checkpoint/hf/hf_activation.h"

#include <algorithm>
#include <array>
#include <string>

#include "tessera/base/check.h"

namespace tessera {
namespace {

struct HfActivation {
  std::string_view name;
  Activation activation;
};
constexpr auto kActivationNames = std::to_array<HfActivation>({
    {"gelu_pytorch_tanh", Activation::gelu},
    {"gelu_new", Activation::gelu},
    {"gelu_fast", Activation::gelu},
    {"gelu", Activation::gelu_exact},
    {"gelu_python", Activation::gelu_exact},
    {"quick_gelu", Activation::quick_gelu},
    {"silu", Activation::silu},
    {"swish", Activation::silu},
    {"relu", Activation::relu},
    {"relu2", Activation::squared_relu},
});

std::string known_names() {
  std::string names;
  for (const HfActivation& known : kActivationNames)
    names += (names.empty() ? "" : ", ") + std::string(known.name);
  return names;
}

}  // namespace

Activation read_hf_activation(const JsonFields& config, std::string_view key,
                              std::string_view standard) {
  const std::string name = config.text(key, standard);
  const auto known = std::ranges::find(kActivationNames, name, &HfActivation::name);
  check_input(known != kActivationNames.end(),
              "{}: {} '{:.60}' is not supported: expected one of {}", config.what(), key, name,
              known_names());
  return known->activation;
}

std::string_view hf_activation_name(Activation activation, std::string_view preferred) {
  const auto usual = std::ranges::find(kActivationNames, preferred, &HfActivation::name);
  if (usual != kActivationNames.end() && usual->activation == activation) return preferred;
  const auto named = std::ranges::find(kActivationNames, activation, &HfActivation::activation);
  check_input(named != kActivationNames.end(), "the activation {} has no name in transformers",
              to_string(activation));
  return named->name;
}

}  // namespace tessera
