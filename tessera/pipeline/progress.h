// Checks that schedules run to their end if messages are not buffered, as with NCCL: a message is
// transferred when the receiver has posted a recv and the sender has produced it, and only then is
// the sender's buffer free. This is the harder case: with buffered sends a sender never waits for a
// buffer.
#pragma once

#include <vector>

#include "tessera/pipeline/stage_boundary.h"

namespace tessera {

/// A step of a rank's list.
struct RankStep {
  int rank = 0;
  int step = 0;
};

/// The steps of all ranks in an order in which each comes after everything that it waits for: the
/// rank's previous step, the message that it needs, and a free buffer for the one that it produces.
/// A recv is assumed to be posted when it is needed; posting it earlier makes no rank wait longer.
/// Throws on a deadlock.
std::vector<RankStep> order_of_steps(const std::vector<Schedule>& schedules,
                                     const std::vector<BoundaryChannel>& channels);

/// By rank and step: the last step of `rank` that it waits for, directly or through other steps;
/// -1: none. For `rank` itself, the step.
std::vector<std::vector<int>> last_waited_for(const std::vector<Schedule>& schedules,
                                              const std::vector<BoundaryChannel>& channels,
                                              int rank);

}  // namespace tessera
