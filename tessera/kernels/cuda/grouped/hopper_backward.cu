#include "tessera/kernels/cuda/grouped/hopper_grouped.cuh"

namespace tessera::cuda {

// The inner dimension is n; b's rows are contiguous along the result's columns.
void hopper_grouped_backward(const HopperLaunch& on, const HopperGroups& groups, void* d,
                             const void* a, const void* b) {
  using Types =
      HopperKernel<cutlass::bfloat16_t, cutlass::layout::RowMajor, cutlass::layout::RowMajor>;
  run_hopper_groups<ExpertRows::outer, cutlass::bfloat16_t, Types>(
      "grouped_gemm", on, groups, {groups.k, groups.n, groups.n, groups.k}, d, a, b, false);
}

}  // namespace tessera::cuda
