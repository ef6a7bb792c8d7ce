// What changes from step to step, in one small block of device memory that kernels read, so that a
// step needs no host synchronisation and can be captured. The host reads late copies for the log.
#pragma once

#include <cstdint>

namespace tessera {

struct StepState {
  double learning_rate = 0;
  double weight_decay = 0;
  std::int64_t step = 0;   ///< successful optimizer steps, this one included: Adam's t
  double grad_norm = 0;    ///< written by finish_grad_norm
  double clip_factor = 1;  ///< written by finish_grad_norm, applied by the optimizer kernels
};

}  // namespace tessera
