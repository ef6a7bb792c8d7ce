// What a checkpoint holds, whole and whatever layout saved it.
#pragma once

#include <map>
#include <string>

#include "tessera/checkpoint/checkpoint.h"

namespace tessera::test {

/// The bytes of every tensor, optimizer state included.
inline std::map<std::string, std::string> saved_tensors(Checkpoint& checkpoint) {
  std::map<std::string, std::string> all;
  for (const auto& [name, tensor] : checkpoint.manifest().tensors) {
    std::string& bytes = all[name];
    bytes.resize(static_cast<std::size_t>(tensor.shape.numel()) * element_size(tensor.dtype));
    checkpoint.read(name, View(bytes.data(), tensor.dtype, tensor.shape));
  }
  return all;
}

inline std::map<std::string, std::string> saved_tensors(const fs::path& run,
                                                        std::int64_t iteration) {
  Checkpoint checkpoint(iteration_folder(run, iteration));
  return saved_tensors(checkpoint);
}

}  // namespace tessera::test
