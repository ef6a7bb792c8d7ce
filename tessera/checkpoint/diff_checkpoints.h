// Compares two checkpoints: where their runs stood, which tensors they have, and every value. The
// layouts that saved them do not matter. A few megabytes of each are in memory at a time.
#pragma once

#include <string>

#include "tessera/checkpoint/checkpoint.h"

namespace tessera {

struct CheckpointDiff {
  bool same = true;
  std::string text;  ///< a line for each difference
};

CheckpointDiff diff_checkpoints(Checkpoint& left, Checkpoint& right);

}  // namespace tessera
