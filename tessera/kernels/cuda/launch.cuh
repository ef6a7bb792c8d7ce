// How kernels are started: always on the given stream, never with a look at the device's state, so
// that a launch can be captured.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "tessera/kernels/cuda/runtime.h"

namespace tessera::cuda {

struct Grid {
  std::int64_t blocks = 0;  ///< 0 launches nothing
  dim3 threads;
  std::size_t shared_bytes = 0;
};

template <class... Parameters>
void launch(Stream& stream, const char* op, const Grid& grid, void (*kernel)(Parameters...),
            std::type_identity_t<Parameters>... arguments) {
  if (grid.blocks == 0) return;
  const cudaStream_t on = native(stream, op);
  constexpr std::size_t kAlwaysAllowed = 48 * 1024;
  if (grid.shared_bytes > kAlwaysAllowed)
    check_op(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  static_cast<int>(grid.shared_bytes)),
             op);
  void* addresses[] = {&arguments...};
  check_op(cudaLaunchKernel(kernel, dim3(static_cast<unsigned>(grid.blocks)), grid.threads,
                            addresses, grid.shared_bytes, on),
           op);
}

constexpr int kElementThreads = 256;

template <class F>
__global__ void __launch_bounds__(kElementThreads) each_kernel(std::int64_t n, F f) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kElementThreads + threadIdx.x;
  if (i < n) f(i);
}

/// Calls f(i) on the GPU for 0 <= i < n. 2^31 blocks hold more elements than any memory.
template <class F>
void for_each(Stream& stream, const char* op, std::int64_t n, const F& f) {
  launch(stream, op, {(n + kElementThreads - 1) / kElementThreads, dim3(kElementThreads)},
         each_kernel<F>, n, f);
}

}  // namespace tessera::cuda
