// The degrees of parallelism. Plain data, no code.
#pragma once

namespace tessera {

struct ParallelOptions {
  int tensor = 1;
  int pipeline = 1;
  int context = 1;
  int expert = 1;
  int data = 1;  ///< derived: ranks / (tensor x pipeline x context)
  bool sequence_parallel = false;
  int nproc = 1;  ///< ranks started as threads of this process

  bool operator==(const ParallelOptions&) const = default;
};

}  // namespace tessera
