// Compiled in builds without CUDA: the one place that says so.
#include "tessera/base/check.h"
#include "tessera/tensor/device.h"
#include "tessera/tensor/trace.h"

namespace tessera {

std::shared_ptr<DeviceApi> make_cuda_api(int) { fail_input("{}", why_no_cuda()); }

std::unique_ptr<DeviceTrace> make_cuda_trace(int) { fail_input("{}", why_no_cuda()); }

std::string why_no_cuda() {
  return "this build has no CUDA: use --device cpu, or run `make cuda` and then "
         "build/cuda/apps/tessera";
}

int cuda_device_count() { return 0; }

std::string cuda_device_name(int) { fail_input("{}", why_no_cuda()); }

}  // namespace tessera
