// Feeds arbitrary bytes to the safetensors reader. It must refuse them with an InputError or give
// tensors that can be read in full: nothing else may be thrown, and no byte outside the input read.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include "tessera/base/check.h"
#include "tessera/checkpoint/format/safetensors_reader.h"

namespace {

constexpr std::int64_t kMaxElements = 1 << 16;

void read_tensor(const tessera::SafetensorsFile& file, const std::string& name) {
  try {
    const tessera::Shape shape = file.shape(name);
    const tessera::DType dtype = file.dtype(name);
    const tessera::DType target = is_float(dtype) ? tessera::DType::f64 : dtype;
    if (shape.numel() > kMaxElements) std::abort();  // more elements than the input has bits
    std::vector<double> values(static_cast<std::size_t>(shape.numel()) + 1);
    file.read(name, tessera::View(values.data(), target, shape));
    if (file.view(name).bytes() != file.entry(name).data.size()) std::abort();
  } catch (const tessera::InputError&) {
    // An unaligned tensor, or one that we cannot compute with.
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > 8192) return 0;
  try {
    const tessera::SafetensorsFile file(std::as_bytes(std::span(data, size)), "fuzz");
    for (const std::string& name : file.names()) read_tensor(file, name);
  } catch (const tessera::InputError&) {
    // Refused, as most inputs must be.
  }
  return 0;
}
