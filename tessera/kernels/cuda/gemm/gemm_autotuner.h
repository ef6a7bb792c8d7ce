// Autotuning of a matrix product: runs several algorithms and returns the fastest.
#pragma once

#include "tessera/kernels/cuda/gemm/gemm_matmul.h"

namespace tessera::cuda {

/// Runs `call` many times and blocks until that is done, so `call` must be repeatable.
/// `candidates`, at least one, are in the library's order, which decides between equally fast ones.
GemmAlgorithm find_fastest(const std::vector<GemmAlgorithm>& candidates, Matmul& matmul,
                           const GemmLibrary& library, cudaStream_t stream, const GemmCall& call);

}  // namespace tessera::cuda
