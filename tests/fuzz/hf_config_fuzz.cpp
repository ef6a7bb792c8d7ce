// Feeds arbitrary text to the reader of config.json. It must refuse it with an InputError or give
// options that a model can be made of, and that survive being written and read again.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "tessera/base/check.h"
#include "tessera/checkpoint/hf/hf_config.h"
#include "tessera/checkpoint/hf/hf_names.h"

namespace {

// These keep one input short.
constexpr std::int64_t kMaxLayers = 16;
constexpr std::int64_t kMaxExperts = 16;

void check_names(const tessera::HfModel& model) {
  tessera::ModelOptions options = model.options;
  options.num_layers = std::min(options.num_layers, kMaxLayers);
  options.num_experts = std::min(options.num_experts, kMaxExperts);
  for (const tessera::HfTensor& tensor : tessera::hf_tensors(options, model.family))
    if (tensor.shape.numel() <= 0) std::abort();
}

void check_round_trip(const tessera::HfModel& model) {
  const std::string family = tessera::hf_family_for(model.options);
  if (family.empty()) return;
  const std::string written = tessera::hf_config_for(model.options, family).dump();
  const tessera::HfModel again = tessera::parse_hf_config(written, "written");
  if (tessera::hf_config_for(again.options, family).dump() != written) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  tessera::HfModel model;
  try {
    model = tessera::parse_hf_config(text, "fuzz");
  } catch (const tessera::InputError&) {
    return 0;  // refused, as most inputs must be
  }
  check_names(model);
  check_round_trip(model);
  return 0;
}
