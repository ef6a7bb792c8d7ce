// Keeps built arrays as NumPy files, so that the next run, and all processes of one machine, map
// them instead of building their own. The file names hold a hash of everything that the arrays
// depend on:
//
//   <hash>-<array>.npy       one per array
//   <hash>-description.txt   the specification and a checksum of each file; written last
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tessera/base/files.h"

namespace tessera {

/// One file: its name, its element type, and its number of rows.
struct ArraySpec {
  const char* name;
  const char* descr;  ///< NumPy's name of the element type
  std::size_t row_bytes;
  std::int64_t rows;
  const char* row_shape;  ///< "" for one element a row, else " 2"
};

/// The bytes of each array, in the order of their specs.
struct ArrayBytes {
  std::vector<std::span<const std::byte>> data;
  std::shared_ptr<const void> storage;  ///< keeps them alive
};

/// The result of `build`, cached in `folder` (created if missing; empty: no cache). `specification`
/// describes everything that the arrays depend on. A damaged cache is rebuilt and an unwritable one
/// is skipped, both with a warning. Safe for concurrent use by threads, processes and machines.
ArrayBytes cached_arrays(const fs::path& folder, const std::string& specification,
                         std::span<const ArraySpec> arrays,
                         const std::function<ArrayBytes()>& build);

/// Of bytes that hold whole elements.
template <class T>
std::span<const T> elements_of(std::span<const std::byte> data) {
  return {reinterpret_cast<const T*>(data.data()), data.size() / sizeof(T)};
}

/// For specifications: equal bytes have equal ones.
std::uint64_t bytes_checksum(std::span<const std::byte> bytes);

}  // namespace tessera
