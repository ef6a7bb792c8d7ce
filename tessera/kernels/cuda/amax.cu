// The largest magnitude of a tensor. The bits of floats without their sign are ordered as unsigned
// integers like the values, with NaN above all (as in cpu/amax.cpp), so the maximum of bits
// propagates NaN. A maximum does not depend on the order, so atomicMax over blocks is bitwise
// reproducible.
#include <algorithm>

#include "tessera/kernels/cuda/chunks.cuh"
#include "tessera/kernels/cuda/cuda_kernels.h"

namespace tessera::cuda {
namespace {

using std::int64_t;

// 8 blocks for each of the 132 SMs of an H200; a grid-stride loop covers the rest. The limit also
// bounds the number of atomics on the one output word. The result does not depend on it.
constexpr int64_t kAmaxBlocks = 1056;

// x [rows, n] with any row stride, in chunks of 16 bytes numbered row by row. out: the bits of an
// f32.
template <class T, bool kPacked>
__global__ void __launch_bounds__(kChunkThreads)
    amax_kernel(unsigned* out, StridedRows<const T> x, int64_t rows, int64_t n) {
  constexpr int kWidth = kPackWidth<T>;
  // The last chunk of a row may be short.
  const int64_t chunks = (n + kWidth - 1) / kWidth;
  // 0 is neutral: magnitudes are not negative. The tail of a short chunk is loaded as zeros.
  unsigned most = 0;
  for (int64_t i = int64_t{blockIdx.x} * kChunkThreads + threadIdx.x; i < rows * chunks;
       i += int64_t{gridDim.x} * kChunkThreads) {
    const int64_t row = i / chunks;
    const auto value = widened(load_chunk<kPacked, kWidth>(x[row], (i - row * chunks) * kWidth, n));
    // The mask clears the sign bit. f64 is rounded to f32 here, so its amax is that of the rounded
    // values.
#pragma unroll
    for (int k = 0; k < kWidth; ++k)
      most = max(most, __float_as_uint(static_cast<float>(value.at[k])) & 0x7fffffffu);
  }
  // __reduce_max_sync needs sm_80 and replaces five shuffles. One atomic per block.
  most = fold_warps(__reduce_max_sync(kAllLanes, most), 0u,
                    [](unsigned highest, unsigned each) { return max(highest, each); });
  if (threadIdx.x == 0) atomicMax(out, most);
}

}  // namespace

void CudaKernels::do_amax(Stream& stream, View out, ConstView x, bool accumulate) {
  constexpr const char* op = "amax";
  // All bits 0 are the float 0, so a memset initialises the maximum.
  if (!accumulate) check_op(cudaMemsetAsync(out.raw(), 0, sizeof(float), native(stream, op)), op);
  dispatch_float(x.dtype(), op, [&]<class T>(TypeTag<T>) {
    constexpr int kWidth = kPackWidth<T>;
    const StridedRows<const T> rows{x.data<T>(), x.stride(0)};
    const int64_t chunks = x.dim(0) * ((x.dim(1) + kWidth - 1) / kWidth);
    const int64_t blocks = std::min((chunks + kChunkThreads - 1) / kChunkThreads, kAmaxBlocks);
    // Packs need whole chunks in every row as well as aligned rows.
    const bool packed = x.dim(1) % kWidth == 0 && rows.template packs<kWidth>(x.dim(0));
    launch(stream, op, {blocks, dim3(kChunkThreads)},
           packed ? amax_kernel<T, true> : amax_kernel<T, false>, static_cast<unsigned*>(out.raw()),
           rows, x.dim(0), x.dim(1));
  });
}

}  // namespace tessera::cuda
