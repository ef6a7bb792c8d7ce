// Turns a CUDA status into an Error that names the call.
#pragma once

#include <cuda_runtime_api.h>

#include "tessera/base/check.h"

namespace tessera {

// CUDA remembers the last failure of a thread until somebody asks, and some libraries report it as
// their own. So whoever reports a failure also takes it off the record.
inline void forget_cuda_failure() { static_cast<void>(cudaGetLastError()); }

inline void check_cuda(cudaError_t status, const char* call) {
  if (status != cudaSuccess) forget_cuda_failure();
  check(status == cudaSuccess, "CUDA: {} failed: {} ({})", call, cudaGetErrorString(status),
        cudaGetErrorName(status));
}

}  // namespace tessera
