// Hostile .idx files: whatever the reader accepts must be readable to the last token.
//
// The first byte is the size of the .bin file; the rest is the .idx file.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tessera/base/check.h"
#include "tessera/data/indexed/indexed_dataset.h"

namespace {

void read_everything(const tessera::IndexedDataset& data) {
  std::vector<std::int32_t> tokens;
  for (std::int64_t i = 0; i < data.size(); ++i) {
    tokens.resize(static_cast<std::size_t>(data.length(i)));
    try {
      data.tokens(i, 0, tokens);
    } catch (const tessera::InputError&) {  // a value that is no token; the next may be one
    }
  }
  std::int64_t before = 0;
  for (std::int64_t d = 0; d <= data.table().documents(); ++d) {
    const std::int64_t start = data.table().document_start(d);
    if (start < before || start > data.size()) __builtin_trap();
    before = start;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  std::vector<std::byte> bin(data[0]);
  for (std::size_t i = 0; i < bin.size(); ++i) bin[i] = static_cast<std::byte>(37 * i);
  const auto idx = std::as_bytes(std::span(data + 1, size - 1));
  try {
    read_everything(tessera::IndexedDataset(idx, bin, "fuzz"));
  } catch (const tessera::InputError&) {  // refused
  }
  return 0;
}
