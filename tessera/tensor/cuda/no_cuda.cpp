// Compiled in builds without CUDA: the one place that says so.
#include "tessera/base/check.h"
#include "tessera/tensor/device.h"

namespace tessera {

std::shared_ptr<DeviceApi> make_cuda_api(int) { fail_input("{}", why_no_cuda()); }

std::string why_no_cuda() {
  return "this build has no CUDA: use --device cpu, or build with the 'cuda' preset";
}

int cuda_device_count() { return 0; }

}  // namespace tessera
