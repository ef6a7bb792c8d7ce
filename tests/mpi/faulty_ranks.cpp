// A job in which something goes wrong, for faults_test.cpp. Every rank prints its process number
// and joins in a few calls; then rank 1 does what the command line says, and the others go on.
//
// usage: mpirun -n 3 faulty_ranks FAULT [SILENCE_LIMIT]
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "tessera/base/check.h"
#include "tessera/comm/mpi.h"

namespace tessera {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

void sum(Communicator& group) {
  Stream stream{Device{}};
  std::vector<float> x(1000, 1.0f);
  group.all_reduce(View(x.data(), DType::f32, {1000}), ReduceOp::sum, stream)->wait(stream);
}

// Keeps the cores of the machine and more busy.
void compute(Clock::duration duration) {
  const auto end = Clock::now() + duration;
  const auto spin = [end] {
    while (Clock::now() < end) continue;
  };
  std::thread second(spin);
  spin();
  second.join();
}

void send_to_nobody(Communicator& group) {
  Stream stream{Device{}};
  const std::vector<float> x(1000000, 1.0f);
  group.send(ConstView(x.data(), DType::f32, {1000000}), 0, stream)->wait(stream);
}

// Holds a call that nobody answers when it fails.
void fail_in_a_call(Communicator& group) {
  Stream stream{Device{}};
  std::vector<float> x(1000);
  const WorkHandle coming = group.recv(View(x.data(), DType::f32, {1000}), 0, stream);
  fail("no more memory");
}

// Rank 1 comes late, or not at all.
void meet_patiently(const std::string& how, MpiWorld& world) {
  if (world.rank() == 1) {
    std::this_thread::sleep_for(3s);
    if (how == "patient-stop") std::raise(SIGSTOP);
    if (how == "patient-quit") return;
  }
  world.communicator()->barrier_without_timeout();
}

void suffer(const std::string& fault, MpiWorld& world) {
  if (fault == "busy") compute(4s);
  if (world.rank() != 1) return;
  if (fault == "kill") std::raise(SIGKILL);
  if (fault == "stop") std::raise(SIGSTOP);
  if (fault == "fail-in-call") fail_in_a_call(*world.communicator());
  if (fault == "abort") world.abort("disk on fire", 5);
  if (fault == "unreceived") send_to_nobody(*world.communicator());
  if (fault == "late" || fault == "endless") std::this_thread::sleep_for(60s);
}

void run(const std::string& fault, const MpiWorld::Options& options) {
  MpiWorld world(options);
  std::printf("pid %d\n", ::getpid());
  std::fflush(stdout);
  try {
    for (int i = 0; i < 10; ++i) sum(*world.communicator());
    if (fault == "quit" && world.rank() == 1) return;
    if (fault == "endless" && world.rank() != 1) return;
    if (fault.starts_with("patient")) return meet_patiently(fault, world);
    suffer(fault, world);
    sum(*world.communicator());
  } catch (const std::exception& error) {
    world.abort(error.what(), 3);
  }
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  const std::string fault = argc > 1 ? argv[1] : "none";
  tessera::MpiWorld::Options options;
  // A rank that quits waits this long for the others to end. A second would be a race with them on
  // a busy machine: what releases a barrier without a timeout is the goodbye, not a limit.
  const bool short_limit =
      fault == "late" || fault == "endless" || fault == "patient" || fault == "patient-stop";
  if (short_limit) options.call_timeout = std::chrono::seconds{1};
  if (argc > 2) options.silence_limit = std::chrono::seconds{std::atoi(argv[2])};
  tessera::run(fault, options);
  return 0;
}
