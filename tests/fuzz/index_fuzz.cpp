// Feeds arbitrary text to the reader of model.safetensors.index.json. It must refuse it with an
// InputError, or give names of files that stay in their folder, and survive being written and read
// again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "tessera/base/check.h"
#include "tessera/checkpoint/hf/hf_index.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  tessera::WeightMap map;
  try {
    map = tessera::parse_weight_map(text, "fuzz");
  } catch (const tessera::InputError&) {
    return 0;  // refused, as most inputs must be
  }
  for (const auto& [tensor, file] : map)
    if (file.find('/') != std::string::npos || !file.ends_with(".safetensors")) std::abort();
  if (tessera::parse_weight_map(tessera::weight_map_text(map, 1, 2), "written") != map)
    std::abort();
  return 0;
}
