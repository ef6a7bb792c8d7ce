// Grouped products in bf16 on the tensor cores of Hopper GPUs (compute capability 9.0), by CUTLASS:
// persistent warp-specialised kernels that take the sizes of the groups from device memory, so that
// the host never waits for them. These declarations keep CUTLASS out of all other sources.
//
// How many rows an expert has may be anything, 0 included. Rows behind the last expert are not
// touched, and neither are the gradients of experts without rows: the caller fills them.
#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda_runtime_api.h>

namespace tessera::cuda {

struct HopperGroups {
  const std::int32_t* offsets = nullptr;  ///< [experts + 1]: where the rows of each expert begin
  int experts = 0;
  std::int64_t n = 0, k = 0;  ///< of the experts' matrices [experts, n, k]
};

/// What the kernels need besides their operands.
struct HopperLaunch {
  cudaStream_t stream = nullptr;
  void* workspace = nullptr;
  std::size_t workspace_bytes = 0;
  int device = 0;
};

/// TMA copies rows in units of 16 bytes.
constexpr std::int64_t kHopperAlignment = 8;

// All pointers are bf16 and aligned to 16 bytes, d of a weight gradient may be f32.

/// d[rows, n] = a[rows, k] b[l]^T for the rows of each expert l; b[experts, n, k].
void hopper_grouped_forward(const HopperLaunch&, const HopperGroups&, void* d, const void* a,
                            const void* b);
/// d[rows, k] = a[rows, n] b[l].
void hopper_grouped_backward(const HopperLaunch&, const HopperGroups&, void* d, const void* a,
                             const void* b);
/// d[l] (+)= a[rows of l, n]^T b[rows of l, k], in f32 or bf16.
void hopper_grouped_weight_f32(const HopperLaunch&, const HopperGroups&, void* d, const void* a,
                               const void* b, bool accumulate);
void hopper_grouped_weight_bf16(const HopperLaunch&, const HopperGroups&, void* d, const void* a,
                                const void* b, bool accumulate);

}  // namespace tessera::cuda
