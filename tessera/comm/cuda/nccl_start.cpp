// Creation of the NCCL world of all ranks.
#include <charconv>
#include <cstdlib>
#include <cstring>

#include "tessera/base/check.h"
#include "tessera/comm/cuda/nccl_communicator.h"
#include "tessera/comm/nccl.h"

namespace tessera {
namespace {

// Decided by rank 0 for all ranks.
struct WorldId {
  ncclUniqueId nccl;
  int compared_calls;
};

// Enough for the first steps; a comparison takes about as long as a small all_gather.
int compared_calls_wanted() {
  constexpr int kUsual = 1000;
  const char* text = std::getenv("TESSERA_COMPARED_CALLS");
  if (text == nullptr) return kUsual;
  int calls = 0;
  const char* end = text + std::strlen(text);
  const auto [read, error] = std::from_chars(text, end, calls);
  check_input(error == std::errc{} && read == end && calls >= 0,
              "the environment variable TESSERA_COMPARED_CALLS='{}' is not a whole number of calls",
              text);
  return calls;
}

}  // namespace

bool nccl_built() { return true; }

std::vector<std::byte> make_nccl_id() {
  WorldId id{{}, compared_calls_wanted()};
  const ncclResult_t result = ncclGetUniqueId(&id.nccl);
  check(result == ncclSuccess, "NCCL cannot make an id: {}. {}", ncclGetErrorString(result),
        ncclGetLastError(nullptr));
  std::vector<std::byte> bytes(sizeof(id));
  std::memcpy(bytes.data(), &id, sizeof(id));
  return bytes;
}

std::shared_ptr<Communicator> make_nccl_world(Device device, int rank, int size,
                                              std::span<const std::byte> id,
                                              std::chrono::seconds timeout) {
  check_input(cuda_device_count() > 0, "{}", why_no_cuda());
  check_input(device.kind == DeviceKind::cuda && device.index < cuda_device_count(),
              "NCCL moves memory of GPUs, but rank {} is to compute on {}, and this process can "
              "use {} GPU(s)",
              rank, to_string(device), cuda_device_count());
  check(rank >= 0 && rank < size, "rank {} of a world of {}", rank, size);
  WorldId shared{};
  check(id.size() == sizeof(shared), "an id of a world has {} bytes, got {}", sizeof(shared),
        id.size());
  std::memcpy(&shared, id.data(), sizeof(shared));
  ::setenv("NCCL_NVLS_ENABLE", "0", 0);  // see nccl.h; NCCL reads it when its first world starts
  const auto lane = std::make_shared<NcclLane>(
      std::make_shared<NcclWorld>(device.index, rank, size, timeout, shared.compared_calls));
  lane->connect(shared.nccl);
  return make_nccl_communicator(lane);
}

}  // namespace tessera
