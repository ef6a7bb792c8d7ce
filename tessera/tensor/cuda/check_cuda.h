// Turns a CUDA status into an Error that names the call.
#pragma once

#include <cuda_runtime_api.h>

#include "tessera/base/check.h"

namespace tessera {

inline void check_cuda(cudaError_t status, const char* call) {
  check(status == cudaSuccess, "CUDA: {} failed: {} ({})", call, cudaGetErrorString(status),
        cudaGetErrorName(status));
}

}  // namespace tessera
