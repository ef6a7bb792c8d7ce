// A CUTLASS kernel for groups of products d (+)= a b whose sizes are in device memory, and the
// small kernel that writes those sizes and addresses. Each instantiation takes about a minute to
// compile, so each has a source of its own.
#pragma once

#include <cutlass/cutlass.h>
#include <cutlass/gemm/device/gemm_universal_adapter.h>
#include <cute/tensor.hpp>
#include <cutlass/epilogue/collective/collective_builder.hpp>
#include <cutlass/gemm/collective/collective_builder.hpp>
#include <cutlass/gemm/group_array_problem_shape.hpp>
#include <cutlass/gemm/kernel/gemm_universal.hpp>
#include <cutlass/kernel_hardware_info.hpp>

#include "tessera/kernels/cuda/grouped/hopper_grouped.h"
#include "tessera/kernels/cuda/runtime.h"

namespace tessera::cuda {

// Which size of a product the rows of an expert are: the outer one of a and d, or the inner one.
enum class ExpertRows { outer, inner };

// Tiles of 128 x 256, two consumer warpgroups with 64 rows each. The clusters of two blocks share
// a's tile along a row of tiles, so that an expert with few rows wastes no second tile of rows.
template <class Out, class LayoutA, class LayoutB>
struct HopperKernel {
  using In = cutlass::bfloat16_t;
  using Tile = cute::Shape<cute::_128, cute::_256, cute::_64>;
  using Cluster = cute::Shape<cute::_1, cute::_2, cute::_1>;
  using Row = cutlass::layout::RowMajor;
  static constexpr int kInAlignment = 16 / sizeof(In), kOutAlignment = 16 / sizeof(Out);
  using Problem = cutlass::gemm::GroupProblemShape<cute::Shape<int, int, int>>;

  using Epilogue = typename cutlass::epilogue::collective::CollectiveBuilder<
      cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Tile, Cluster,
      cutlass::epilogue::collective::EpilogueTileAuto, float, float, Out, Row*, kOutAlignment, Out,
      Row*, kOutAlignment, cutlass::epilogue::PtrArrayTmaWarpSpecializedCooperative,
      cutlass::epilogue::fusion::LinearCombination<Out, float>>::CollectiveOp;
  using Mainloop = typename cutlass::gemm::collective::CollectiveBuilder<
      cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, In, LayoutA*, kInAlignment, In, LayoutB*,
      kInAlignment, float, Tile, Cluster,
      cutlass::gemm::collective::StageCountAutoCarveout<static_cast<int>(
          sizeof(typename Epilogue::SharedStorage))>,
      cutlass::gemm::KernelPtrArrayTmaWarpSpecializedCooperative>::CollectiveOp;
  using Kernel = cutlass::gemm::kernel::GemmUniversal<Problem, Mainloop, Epilogue>;
  using Gemm = cutlass::gemm::device::GemmUniversalAdapter<Kernel>;
};

// The arguments of all groups as CUTLASS reads them: an array for each.
template <class Out, class Types>
struct HopperArguments {
  typename Types::Problem::UnderlyingProblemShape* sizes;
  const typename Types::In** a;
  const typename Types::In** b;
  Out** d;
  typename Types::Kernel::InternalStrideA* a_stride;
  typename Types::Kernel::InternalStrideB* b_stride;
  typename Types::Kernel::InternalStrideD* d_stride;
};

// Of the two strides of a matrix the one that is not 1.
template <class Stride>
__device__ Stride leading_stride(std::int64_t elements) {
  Stride stride{};
  if constexpr (cute::is_static_v<std::remove_cvref_t<decltype(cute::get<0>(stride))>>)
    cute::get<1>(stride) = elements;
  else
    cute::get<0>(stride) = elements;
  return stride;
}

// One block. [n, k] are the sizes of an expert's matrix; rows of a and of b or d are its own.
//   outer: sizes (rows, columns, inner) with [columns, inner] = [n, k] or, for backward, [k, n]
//   inner: sizes (n, k, rows); an expert without rows gets no tile, since an inner size of 0 is
//          nothing that the copy engine can describe
template <ExpertRows kRows, class Out, class Types>
__global__ void describe_groups(HopperArguments<Out, Types> to, const std::int32_t* offsets,
                                int experts, std::int64_t outer, std::int64_t inner,
                                std::int64_t a_leading, std::int64_t b_leading,
                                const typename Types::In* a, const typename Types::In* b, Out* d) {
  for (int l = static_cast<int>(threadIdx.x); l < experts; l += static_cast<int>(blockDim.x)) {
    const std::int64_t begin = offsets[l];
    const int rows = offsets[l + 1] - offsets[l];
    const std::int64_t matrix = l * outer * inner;
    if constexpr (kRows == ExpertRows::outer) {
      to.sizes[l] = {rows, static_cast<int>(outer), static_cast<int>(inner)};
      to.a[l] = a + begin * inner;
      to.b[l] = b + matrix;
      to.d[l] = d + begin * outer;
      to.d_stride[l] = leading_stride<typename Types::Kernel::InternalStrideD>(outer);
    } else {
      to.sizes[l] = {rows > 0 ? static_cast<int>(outer) : 0, static_cast<int>(inner), rows};
      to.a[l] = a + begin * outer;
      to.b[l] = b + begin * inner;
      to.d[l] = d + matrix;
      to.d_stride[l] = leading_stride<typename Types::Kernel::InternalStrideD>(inner);
    }
    to.a_stride[l] = leading_stride<typename Types::Kernel::InternalStrideA>(a_leading);
    to.b_stride[l] = leading_stride<typename Types::Kernel::InternalStrideB>(b_leading);
  }
}

// Hands out arrays of the workspace, each aligned as CUTLASS wants its own part.
class WorkspaceParts {
 public:
  WorkspaceParts(void* memory, std::size_t bytes)
      : next_(static_cast<char*>(memory)), left_(bytes) {}

  template <class T>
  T* take(std::size_t count, const char* op) {
    constexpr std::size_t kAlignment = 256;
    const std::size_t bytes = (count * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
    require_op(bytes <= left_, op, "the workspace is too small for so many experts");
    T* part = reinterpret_cast<T*>(next_);
    next_ += bytes;
    left_ -= bytes;
    return part;
  }

 private:
  char* next_;
  std::size_t left_;
};

struct HopperSizes {
  std::int64_t outer = 0, inner = 0;          // as in describe_groups
  std::int64_t a_leading = 0, b_leading = 0;  // elements from row to row in memory
};

template <ExpertRows kRows, class Out, class Types>
void run_hopper_groups(const char* op, const HopperLaunch& on, const HopperGroups& groups,
                       const HopperSizes& sizes, void* d, const void* a, const void* b,
                       bool accumulate) {
  using Gemm = typename Types::Gemm;
  using In = typename Types::In;
  const auto experts = static_cast<std::size_t>(groups.experts);
  WorkspaceParts parts(on.workspace, on.workspace_bytes);
  HopperArguments<Out, Types> arrays;
  arrays.sizes = parts.take<typename Types::Problem::UnderlyingProblemShape>(experts, op);
  arrays.a = parts.take<const In*>(experts, op);
  arrays.b = parts.take<const In*>(experts, op);
  arrays.d = parts.take<Out*>(experts, op);
  arrays.a_stride = parts.take<typename Types::Kernel::InternalStrideA>(experts, op);
  arrays.b_stride = parts.take<typename Types::Kernel::InternalStrideB>(experts, op);
  arrays.d_stride = parts.take<typename Types::Kernel::InternalStrideD>(experts, op);
  constexpr int kThreads = 128;
  describe_groups<kRows, Out, Types><<<1, kThreads, 0, on.stream>>>(
      arrays, groups.offsets, groups.experts, sizes.outer, sizes.inner, sizes.a_leading,
      sizes.b_leading, static_cast<const In*>(a), static_cast<const In*>(b), static_cast<Out*>(d));
  check_op(cudaGetLastError(), op);

  typename Gemm::Arguments arguments{};
  arguments.mode = cutlass::gemm::GemmUniversalMode::kGrouped;
  arguments.problem_shape = {groups.experts, arrays.sizes, nullptr};
  arguments.mainloop = {arrays.a, arrays.a_stride, arrays.b, arrays.b_stride};
  arguments.epilogue = {
      {}, const_cast<const Out**>(arrays.d), arrays.d_stride, arrays.d, arrays.d_stride};
  arguments.epilogue.thread.alpha = 1.0F;
  arguments.epilogue.thread.beta = accumulate ? 1.0F : 0.0F;
  arguments.hw_info.device_id = on.device;
  arguments.hw_info.sm_count =
      cutlass::KernelHardwareInfo::query_device_multiprocessor_count(on.device);
  char* rest = parts.take<char>(Gemm::get_workspace_size(arguments), op);
  Gemm gemm;
  require_op(gemm.can_implement(arguments) == cutlass::Status::kSuccess, op,
             "CUTLASS cannot multiply these shapes");
  require_op(gemm.initialize(arguments, rest, on.stream) == cutlass::Status::kSuccess &&
                 gemm.run(on.stream) == cutlass::Status::kSuccess,
             op, "CUTLASS could not start its kernel");
}

}  // namespace tessera::cuda
