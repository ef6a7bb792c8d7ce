// Turns a CUDA status into an Error that names the call.
#pragma once

#include <cuda_runtime_api.h>

#include "tessera/base/check.h"

namespace tessera {

// CUDA keeps the last error of a thread until it is queried, and some libraries would report it as
// their own. Code that reports an error therefore also clears it.
inline void forget_cuda_failure() { static_cast<void>(cudaGetLastError()); }

inline void check_cuda(cudaError_t status, const char* call) {
  if (status != cudaSuccess) forget_cuda_failure();
  check(status == cudaSuccess, "CUDA: {} failed: {} ({})", call, cudaGetErrorString(status),
        cudaGetErrorName(status));
}

}  // namespace tessera
