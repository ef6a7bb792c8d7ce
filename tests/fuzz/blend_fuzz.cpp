// Any bytes as a file that names data sets: they are refused with an InputError, or every data set
// has a prefix, and a weight above 0 or none has one.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>

#include "tessera/base/check.h"
#include "tessera/data/datasets/blend.h"

namespace {

using namespace tessera;

void expect_sound(const std::optional<Blend>& blend) {
  if (!blend) return;
  bool ok = !blend->prefixes.empty() &&
            (blend->weights.empty() || blend->weights.size() == blend->prefixes.size());
  for (const std::string& prefix : blend->prefixes) ok = ok && !prefix.empty();
  for (const double weight : blend->weights) ok = ok && weight > 0 && std::isfinite(weight);
  if (!ok) std::abort();
}

}  // namespace

// The first byte chooses what kind of file it is.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    if (data[0] < 128)
      expect_sound(parse_blend_text(text, "fuzz"));
    else
      for (const std::optional<Blend>& each : parse_split_blends(text, "fuzz").per_split)
        expect_sound(each);
  } catch (const InputError&) {
    return 0;
  }
  return 0;
}
