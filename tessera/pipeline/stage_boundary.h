// Messages between the ranks of a pipeline, and the number of buffers that each side needs for
// them.
#pragma once

#include <vector>

#include "tessera/pipeline/action.h"
#include "tessera/pipeline/stage_placement.h"

namespace tessera {

/// Activations or gradients that one stage passes to another, usually on another rank.
struct BoundaryMessage {
  int made = 0;  ///< step of the sender's list that produces it
  int used = 0;  ///< step of the receiver's list that uses it
};

/// The messages from one rank to another, in the order of the sender. The receiver posts its recvs
/// in the same order, so that messages cannot be confused.
struct BoundaryChannel {
  int from = 0;
  int to = 0;  ///< may equal `from`: the message then stays on the rank
  std::vector<BoundaryMessage> messages;
  int window = 1;  ///< number of the receiver's buffers
  /// Number of the sender's buffers. It waits until message n - outgoing has been received before
  /// it produces message n. At least two: one is sent while the next one is produced.
  int outgoing = 2;

  bool is_local() const { return from == to; }
};

/// By message: the last step of the receiver at which the recv can be posted, since it needs this
/// message or a later one there.
std::vector<int> asked_at(const BoundaryChannel& channel);

/// Channels with enough buffers to be deadlock-free and, for actions of equal duration, to make no
/// rank wait for a buffer. Throws as check_schedules does.
std::vector<BoundaryChannel> boundary_channels(const PipelineShape& shape,
                                               const std::vector<Schedule>& schedules);

}  // namespace tessera
