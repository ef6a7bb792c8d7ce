// Compiled in builds without CUDA.
#include "tessera/base/check.h"
#include "tessera/kernels/kernels.h"

namespace tessera {

std::unique_ptr<Kernels> make_cuda_kernels(Device, const CudaOptions&) {
  fail_input(
      "this build has no CUDA kernels: use --device cpu, or run `make cuda` and then "
      "build/cuda/apps/tessera");
}

}  // namespace tessera
