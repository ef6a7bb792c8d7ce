// What a checkpoint holds, as text for people.
#pragma once

#include <optional>
#include <string>

#include "tessera/checkpoint/checkpoint.h"

namespace tessera {

struct CheckpointView {
  std::int64_t seq_length = 0;  ///< of the run's samples, to count tokens by; 0: not known
  bool tensors = false;         ///< list each one
};

/// Which checkpoint is to be verified: `path` itself, or that of an iteration, or the newest of a
/// folder, whether or not it is good. InputError when there is none.
fs::path checkpoint_path(const fs::path& path, std::optional<std::int64_t> iteration);

/// Where the run stood, the layout that saved it, tensors by kind, and files.
std::string checkpoint_text(const Checkpoint& checkpoint, const CheckpointView& view);

/// What a tensor is: "weights", or the name of the optimizer's state that it belongs to.
std::string kind_of(const Checkpoint& checkpoint, const std::string& tensor);

}  // namespace tessera
