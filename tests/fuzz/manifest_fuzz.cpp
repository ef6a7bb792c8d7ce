// Feeds arbitrary text to the reader of a checkpoint's manifest, as it is and behind a checksum
// that fits it: else nothing would get past that. It must be refused with an InputError, or give
// slices that lie inside their files and tensors, and survive being written and read again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "tessera/base/check.h"
#include "tessera/checkpoint/format/manifest.h"

namespace {

using tessera::Manifest;

void check_slices(const Manifest& manifest) {
  for (const auto& [name, tensor] : manifest.tensors)
    for (const tessera::TensorSlice& slice : tensor.slices) {
      const auto bytes =
          static_cast<std::uint64_t>(slice.extent.numel()) * element_size(tensor.dtype);
      if (slice.at + bytes > manifest.files.at(slice.file).bytes) std::abort();
      for (int i = 0; i < tensor.shape.rank(); ++i)
        if (slice.offset[i] + slice.extent[i] > tensor.shape[i]) std::abort();
    }
}

void read(const std::string& text) {
  Manifest manifest;
  try {
    manifest = tessera::parse_manifest(text, "fuzz");
  } catch (const tessera::InputError&) {
    return;  // refused, as most inputs must be
  }
  check_slices(manifest);
  const std::string written = tessera::manifest_text(manifest);
  if (tessera::manifest_text(tessera::parse_manifest(written, "written")) != written) std::abort();
}

// What a rank sends to the one that writes the manifest.
void read_part(std::string_view text) {
  try {
    Manifest manifest;
    tessera::add_part(manifest, text);
    check_slices(manifest);
  } catch (const tessera::InputError&) {
    // Refused.
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string body(reinterpret_cast<const char*>(data), size);
  read(body);
  read("{\"digest\":\"" + tessera::compute_digest(body).to_string() + "\",\n" + body);
  read_part("{" + body);
  return 0;
}
