// Reads a whole checkpoint and reports damage.
#pragma once

#include <string>
#include <vector>

#include "tessera/checkpoint/checkpoint.h"

namespace tessera {

/// A damaged byte range of a file.
struct Damage {
  std::string file;
  std::uint64_t begin = 0;  ///< bytes [begin, end)
  std::uint64_t end = 0;
  std::string reason;
  std::vector<std::string> tensors;  ///< tensors with a slice in it
};

/// Compares every block of every file with its checksum. The manifest has been verified already.
std::vector<Damage> find_damage(const Checkpoint& checkpoint);

/// One line per damage, with the file, the bytes and the tensors, or a line that there is none.
std::string damage_text(const Checkpoint& checkpoint, const std::vector<Damage>& damage);

}  // namespace tessera
