// Construction of the CPU backend.
#include "tessera/kernels/cpu/cpu_kernels.h"

#include "tessera/kernels/cpu/blas.h"

#include "tessera/base/check.h"

namespace tessera {

std::unique_ptr<Kernels> make_cpu_kernels(int threads) {
  check(threads >= 1, "the CPU kernels need at least one thread, got {}", threads);
  return std::make_unique<cpu::CpuKernels>(threads);
}

}  // namespace tessera

namespace tessera::cpu {

// `widened_` gets one buffer per thread, empty until the first 16-bit product. A single thread
// needs no reservation: its first product allocates the buffers that all later ones use.
CpuKernels::CpuKernels(int threads)
    : threads_(threads), widened_(static_cast<std::size_t>(threads)) {
  if (threads > 1) reserve_blas_memory(threads);
}

}  // namespace tessera::cpu
