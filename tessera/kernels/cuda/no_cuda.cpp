// Compiled in builds without CUDA.
#include "tessera/base/check.h"
#include "tessera/kernels/kernels.h"

namespace tessera {

std::unique_ptr<Kernels> make_cuda_kernels(Device, const CudaOptions&) {
  fail_input("this build has no CUDA kernels: use --device cpu, or build with the 'cuda' preset");
}

}  // namespace tessera
