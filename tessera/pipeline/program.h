// The schedule of one rank with its messages: the message that each action receives from another
// rank, and the one that it sends. Pure data.
#pragma once

#include <vector>

#include "tessera/pipeline/action.h"
#include "tessera/pipeline/stage_placement.h"

namespace tessera {

struct PipelineProgram {
  /// A message: its index on a channel.
  struct Boundary {
    int channel = -1;  ///< -1: none
    int message = 0;
    explicit operator bool() const { return channel >= 0; }
  };
  struct Step {
    Action action;
    Boundary in;   ///< the message that it needs
    Boundary out;  ///< the message that it produces
    /// Messages of later actions that may be received before this action: their senders do not wait
    /// for anything that this rank does from here on.
    std::vector<Boundary> early;
  };
  /// Messages from one rank, in the order in which they arrive. The sender may be this rank itself.
  struct Incoming {
    int from = 0;
    int messages = 0;
    int window = 0;  ///< number of buffers
  };
  /// Messages to another rank.
  struct Outgoing {
    int to = 0;
    int local = -1;   ///< the incoming channel, if the receiver is this rank
    int buffers = 0;  ///< otherwise: number of buffers
  };

  std::vector<Step> steps;
  std::vector<Incoming> incoming;
  std::vector<Outgoing> outgoing;
  int activation_buffers = 1;  ///< maximum number of activations held at once

  /// The total number of message buffers.
  int buffers() const;
};

PipelineProgram compile(const PipelineShape& shape, const std::vector<Schedule>& schedules,
                        int rank);

}  // namespace tessera
