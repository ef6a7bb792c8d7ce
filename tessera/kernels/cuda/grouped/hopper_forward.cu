#include "tessera/kernels/cuda/grouped/hopper_grouped.cuh"

namespace tessera::cuda {

// b's rows are contiguous along the inner dimension, as are a's.
void hopper_grouped_forward(const HopperLaunch& on, const HopperGroups& groups, void* d,
                            const void* a, const void* b) {
  using Types =
      HopperKernel<cutlass::bfloat16_t, cutlass::layout::RowMajor, cutlass::layout::ColumnMajor>;
  run_hopper_groups<ExpertRows::outer, cutlass::bfloat16_t, Types>(
      "grouped_gemm", on, groups, {groups.n, groups.k, groups.k, groups.k}, d, a, b, false);
}

}  // namespace tessera::cuda
