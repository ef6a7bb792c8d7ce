// What the ranks of an NCCL world check together. Every rank calls each of them.
#pragma once

#include <string>

#include "tessera/comm/communicator.h"

namespace tessera::test {

/// Adds all tests of `world`, whose rank computes on `device`, to those that gtest runs.
void register_nccl_tests(Communicator& world, Device device);

/// All ranks but the last make a call that the last does not come to. `how` names the call:
/// - send: the host waits inside the call, since two ranks meet there for the first time;
/// - barrier: the host waits for the stream, inside the call;
/// - stream: the host waits for its stream, and nobody but the watching thread can help it;
/// - patience: a barrier without a timeout, to which the last rank does come, after the time limit.
/// Returns the exit code: 0 if the right error came. With `stream` it does not come back.
int run_stalled(Communicator& world, Device device, const std::string& how);

}  // namespace tessera::test
