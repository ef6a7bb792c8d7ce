// Chooses the backend for a device.
#include "tessera/kernels/kernels.h"

namespace tessera {

std::unique_ptr<Kernels> make_kernels(Device device, int threads, const CudaOptions& cuda) {
  return device.kind == DeviceKind::cuda ? make_cuda_kernels(device, cuda)
                                         : make_cpu_kernels(threads);
}

}  // namespace tessera
