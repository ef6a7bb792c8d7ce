// What passes between the ranks of a pipeline, and how much room for it each side needs.
#pragma once

#include <vector>

#include "tessera/pipeline/action.h"
#include "tessera/pipeline/stage_placement.h"

namespace tessera {

/// Activations or gradients that pass from one stage to another, most often on another rank.
struct BoundaryMessage {
  int made = 0;  ///< by this step of the sender's list
  int used = 0;  ///< by this step of the receiver's list
};

/// Ranks that pass messages to each other, in the order of the sender. The receiver asks for them
/// in the same order, so that none can be taken for another.
struct BoundaryChannel {
  int from = 0;
  int to = 0;  ///< may be `from`: then messages are made where they are needed
  std::vector<BoundaryMessage> messages;
  int window = 1;  ///< messages that the receiver has room for
  /// Messages that the sender has room for. It waits for message n - outgoing to be received before
  /// it makes message n. Two at least: one is sent while the next one is made.
  int outgoing = 2;

  bool is_local() const { return from == to; }
};

/// By message: the step of the receiver at which it asks for it at the latest, since it needs it or
/// one that comes after it.
std::vector<int> asked_at(const BoundaryChannel& channel);

/// Channels with room enough that nobody waits for ever, and for actions that take the same time,
/// that nobody waits for room at all. Throws as check_schedules does.
std::vector<BoundaryChannel> boundary_channels(const PipelineShape& shape,
                                               const std::vector<Schedule>& schedules);

}  // namespace tessera
