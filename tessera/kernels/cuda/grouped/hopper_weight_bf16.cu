#include "tessera/kernels/cuda/grouped/hopper_grouped.cuh"

namespace tessera::cuda {

// The inner dimension is the rows of an expert; both operands are contiguous along the outer ones.
void hopper_grouped_weight_bf16(const HopperLaunch& on, const HopperGroups& groups, void* d,
                                const void* a, const void* b, bool accumulate) {
  using Types =
      HopperKernel<cutlass::bfloat16_t, cutlass::layout::ColumnMajor, cutlass::layout::RowMajor>;
  run_hopper_groups<ExpertRows::inner, cutlass::bfloat16_t, Types>(
      "grouped_weight_gradient", on, groups, {groups.n, groups.k, groups.n, groups.k}, d, a, b,
      accumulate);
}

}  // namespace tessera::cuda
