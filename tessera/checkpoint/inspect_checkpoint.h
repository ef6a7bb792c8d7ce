// The contents of a checkpoint as text.
#pragma once

#include <optional>
#include <string>

#include "tessera/checkpoint/checkpoint.h"

namespace tessera {

struct CheckpointView {
  std::int64_t seq_length = 0;  ///< of the run's samples, to count tokens; 0: not known
  bool tensors = false;         ///< list each one
};

/// The checkpoint to verify: `path` itself, that of an iteration, or the newest of a folder, valid
/// or not. InputError if there is none.
fs::path checkpoint_path(const fs::path& path, std::optional<std::int64_t> iteration);

/// The position of the run, the layout that saved it, tensors by kind, and files.
std::string checkpoint_text(const Checkpoint& checkpoint, const CheckpointView& view);

/// The kind of a tensor: "weights", or the name of the optimizer state that it belongs to.
std::string kind_of(const Checkpoint& checkpoint, const std::string& tensor);

}  // namespace tessera
