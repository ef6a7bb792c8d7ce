#include "tessera/checkpoint/hf/hf_family.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "tessera/base/check.h"

namespace tessera {

// Each in the file of its name in families/.
extern const HfFamily kCohere, kCohere2, kDeepseekV2, kDeepseekV3, kGemma, kGemma2, kGemma3,
    kGlm4Moe, kGpt2, kGptNeox, kGptOss, kGranite, kGraniteMoe, kLlama, kLlama4, kMistral, kMixtral,
    kOlmo2, kOlmoe, kPhi3, kQwen2, kQwen2Moe, kQwen3, kQwen3Moe;

namespace {

// Where two families can express a model, the simpler and better known one comes first.
constexpr std::array kFamilies{&kGpt2,       &kLlama,      &kMistral, &kQwen2,   &kQwen3,
                               &kPhi3,       &kGemma,      &kGemma2,  &kGemma3,  &kOlmo2,
                               &kGranite,    &kGptNeox,    &kCohere,  &kCohere2, &kMixtral,
                               &kQwen3Moe,   &kQwen2Moe,   &kGlm4Moe, &kOlmoe,   &kGraniteMoe,
                               &kDeepseekV3, &kDeepseekV2, &kGptOss,  &kLlama4};

}  // namespace

std::span<const HfFamily* const> hf_families() { return kFamilies; }

const HfFamily* find_hf_family(std::string_view name) {
  const auto found = std::ranges::find(kFamilies, name, &HfFamily::name);
  return found == kFamilies.end() ? nullptr : *found;
}

const HfFamily& hf_family(std::string_view name) {
  const HfFamily* family = find_hf_family(name);
  check(family != nullptr, "unknown family '{}'", name);
  return *family;
}

std::string hf_family_names() {
  std::vector<std::string_view> names;
  for (const HfFamily* family : kFamilies) names.push_back(family->name);
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace tessera
