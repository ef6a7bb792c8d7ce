// Reads all of a checkpoint and says what of it is damaged.
#pragma once

#include <string>
#include <vector>

#include "tessera/checkpoint/checkpoint.h"

namespace tessera {

/// A byte range of a file that is not what was saved.
struct Damage {
  std::string file;
  std::uint64_t begin = 0;  ///< bytes [begin, end)
  std::uint64_t end = 0;
  std::string reason;
  std::vector<std::string> tensors;  ///< that have a slice there
};

/// Compares every block of every file with its checksum. The manifest was compared already.
std::vector<Damage> find_damage(const Checkpoint& checkpoint);

/// One line for each, with the file, the bytes and the tensors; or that all is well.
std::string damage_text(const Checkpoint& checkpoint, const std::vector<Damage>& damage);

}  // namespace tessera
