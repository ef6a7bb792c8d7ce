// The degrees of parallelism, and how ranks are started. Plain data, no code.
#pragma once

namespace tessera {

/// What --nproc starts: threads of this process, or processes of this machine.
enum class LaunchKind { threads, processes };

/// Values that are marked "derived" are filled in by resolve (config/resolve.h).
struct ParallelOptions {
  int tensor = 1;  ///< derived from the grid, if there is one: grid x grid
  int pipeline = 1;
  int context = 1;
  int expert = 1;
  int expert_tensor = 0;  ///< tensor-parallel size of experts; derived: tensor
  int data = 1;           ///< derived: ranks / (tensor x pipeline x context)
  int grid = 0;  ///< side q of a q x q grid of tensor-parallel ranks; 0: not two-dimensional
  bool sequence_parallel = false;
  int nproc = 1;  ///< ranks that this program starts itself
  LaunchKind launch = LaunchKind::threads;
  int timeout_minutes = 10;  ///< a rank that waits longer for another gives up

  bool operator==(const ParallelOptions&) const = default;
};

}  // namespace tessera
