// Error checks and stream handles for the kernels as plain functions, so that files compiled by
// nvcc can throw our errors without {fmt}.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include "tessera/tensor/stream.h"

namespace tessera::cuda {

/// Throws an Error that names the op unless the CUDA call succeeded.
void check_op(cudaError_t status, const char* op);
void check_blas(cublasStatus_t status, const char* call);
/// Throws the Error "op: what" unless `ok`.
void require_op(bool ok, const char* op, const char* what);

/// The stream's handle. Makes its device current for the calling thread.
cudaStream_t native(Stream& stream, const char* op);

}  // namespace tessera::cuda
