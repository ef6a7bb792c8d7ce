// Compiled in builds without CUDA.
#include "tessera/base/check.h"
#include "tessera/comm/nccl.h"

namespace tessera {
namespace {

[[noreturn]] void refuse() {
  fail_input("NCCL moves data between GPUs, and this program was built without CUDA. {}",
             why_no_cuda());
}

}  // namespace

bool nccl_built() { return false; }

std::vector<std::byte> make_nccl_id() { refuse(); }

std::shared_ptr<Communicator> make_nccl_world(Device, int, int, std::span<const std::byte>,
                                              std::chrono::seconds) {
  refuse();
}

}  // namespace tessera
