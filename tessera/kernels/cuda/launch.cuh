// Kernel launches: always on the given stream and without querying or synchronising the device, so
// that every launch can be captured in a CUDA graph.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "tessera/kernels/cuda/runtime.h"

namespace tessera::cuda {

// A one-dimensional grid. Kernels with two or three logical dimensions divide blockIdx.x
// themselves: its limit of 2^31 - 1 is far above the 65535 of the other two.
struct Grid {
  std::int64_t blocks = 0;  ///< 0 launches nothing
  dim3 threads;
  std::size_t shared_bytes = 0;
};

// Launches a kernel, with the device of the stream made current. Arguments are converted to the
// types of the parameters (type_identity keeps them out of deduction).
template <class... Parameters>
void launch(Stream& stream, const char* op, const Grid& grid, void (*kernel)(Parameters...),
            std::type_identity_t<Parameters>... arguments) {
  // CUDA rejects an empty grid; an empty tensor is not an error here.
  if (grid.blocks == 0) return;
  const cudaStream_t on = native(stream, op);
  // More dynamic shared memory than 48 KiB has to be requested for each kernel.
  constexpr std::size_t kAlwaysAllowed = 48 * 1024;
  if (grid.shared_bytes > kAlwaysAllowed)
    check_op(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  static_cast<int>(grid.shared_bytes)),
             op);
  // cudaLaunchKernel copies the arguments before it returns, so that their addresses may be local.
  void* addresses[] = {&arguments...};
  check_op(cudaLaunchKernel(kernel, dim3(static_cast<unsigned>(grid.blocks)), grid.threads,
                            addresses, grid.shared_bytes, on),
           op);
}

// A thread per element, for ops where nothing is gained by packs: gathers, transposes, small
// tensors.
constexpr int kElementThreads = 256;

template <class F>
__global__ void __launch_bounds__(kElementThreads) each_kernel(std::int64_t n, F f) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kElementThreads + threadIdx.x;
  if (i < n) f(i);
}

/// Calls f(i) on the GPU for 0 <= i < n, one thread each. The limit of 2^31 blocks is beyond any
/// memory.
template <class F>
void for_each(Stream& stream, const char* op, std::int64_t n, const F& f) {
  launch(stream, op, {(n + kElementThreads - 1) / kElementThreads, dim3(kElementThreads)},
         each_kernel<F>, n, f);
}

}  // namespace tessera::cuda
