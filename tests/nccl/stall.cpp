#include <chrono>
#include <cstdio>
#include <thread>

#include "tessera/base/check.h"
#include "tessera/tensor/memory.h"
#include "tests/nccl/checks.h"

namespace tessera::test {
namespace {

// Longer than the others may take; the script ends this rank before.
void stay_away() { std::this_thread::sleep_for(std::chrono::minutes(10)); }

void make_call(Communicator& world, const std::string& how, const View& x, Stream& stream) {
  if (how == "send") {
    world.send(x, world.size() - 1, stream);
  } else if (how == "barrier") {
    world.barrier();
  } else {
    check(how == "stream", "--stall {}: give send, barrier, stream or patience", how);
    world.all_reduce(x, ReduceOp::sum, stream)->wait(stream);
    stream.synchronize();
  }
}

// What the message must say: this rank, the call, and its size.
bool names_all(const std::string& text, const Communicator& world, const std::string& how) {
  const std::string rank = fmt::format("rank {} of {}: ", world.rank(), world.size());
  const std::string call = how == "send" ? "send of f32 [1000] (4000 bytes)" : "barrier";
  return text.find(rank) != std::string::npos && text.find(call) != std::string::npos &&
         text.find("within") != std::string::npos;
}

// The last rank comes when the time of other calls is over.
int run_patient(Communicator& world) {
  if (world.rank() == world.size() - 1) std::this_thread::sleep_for(std::chrono::seconds(15));
  world.barrier_without_timeout();
  std::printf("all have come\n");
  return 0;
}

}  // namespace

int run_stalled(Communicator& world, Device device, const std::string& how) {
  Stream stream(device);
  Memory memory(device);
  const Tensor x = memory.allocate(MemoryUse::data, DType::f32, {1000});
  // All connect, so that what follows stops where it is meant to.
  world.all_reduce(x, ReduceOp::sum, stream)->wait(stream);
  world.barrier();
  if (how == "patience") return run_patient(world);
  if (world.rank() == world.size() - 1) {
    stay_away();
    return 0;
  }
  try {
    make_call(world, how, x, stream);
  } catch (const Error& error) {
    std::printf("caught: %s\n", error.what());
    return names_all(error.what(), world, how) ? 0 : 4;
  }
  std::printf("the call came back, though the last rank did not come\n");
  return 3;
}

}  // namespace tessera::test
