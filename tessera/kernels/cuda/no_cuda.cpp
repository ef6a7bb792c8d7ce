// Compiled instead of the CUDA backend in builds without CUDA: reports why there is none.
#include "tessera/base/check.h"
#include "tessera/kernels/kernels.h"

namespace tessera {

std::unique_ptr<Kernels> make_cuda_kernels(Device, const CudaOptions&) {
  fail_input("{}", why_no_cuda());
}

}  // namespace tessera
