// Whether ranks that run their lists come to an end where messages are not buffered: a message goes
// over when the receiver has asked for it and the sender has made it, and only then is its place at
// the sender free (NCCL). It is the harder case: where sends are copied, nobody waits for room.
#pragma once

#include <vector>

#include "tessera/pipeline/stage_boundary.h"

namespace tessera {

/// A step of a rank's list.
struct RankStep {
  int rank = 0;
  int step = 0;
};

/// All ranks' steps, each behind all that it waits for: the step before it, the message that it
/// needs, and room for the one that it makes. A rank asks for a message when it needs it; asking
/// earlier keeps nobody waiting. Throws if the ranks wait for each other for ever.
std::vector<RankStep> order_of_steps(const std::vector<Schedule>& schedules,
                                     const std::vector<BoundaryChannel>& channels);

/// By rank and step: the last step of `rank` that it waits for, through whatever others wait for;
/// -1: none. Of `rank` itself, the step.
std::vector<std::vector<int>> last_waited_for(const std::vector<Schedule>& schedules,
                                              const std::vector<BoundaryChannel>& channels,
                                              int rank);

}  // namespace tessera
