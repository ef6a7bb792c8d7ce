// Compares two checkpoints: the positions of their runs, their tensors, and every value. The
// layouts that saved them do not matter. Only a few megabytes of each are in memory at a time.
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
