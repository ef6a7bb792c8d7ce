// One rank's schedule, made ready to run: what each action takes from another rank and what it
// gives, message by message. Pure.
#pragma once

#include <vector>

#include "tessera/pipeline/action.h"
#include "tessera/pipeline/stage_placement.h"

namespace tessera {

struct PipelineProgram {
  /// A message: the how-manieth of which channel.
  struct Boundary {
    int channel = -1;  ///< none
    int message = 0;
    explicit operator bool() const { return channel >= 0; }
  };
  struct Step {
    Action action;
    Boundary in;   ///< what it needs
    Boundary out;  ///< what it makes
    /// What the next one needs and may be asked for before this one: whoever makes it waits for
    /// nothing that this rank does from now on.
    std::vector<Boundary> early;
  };
  /// Messages from one rank, in the order in which they come; from this rank itself, too.
  struct Incoming {
    int from = 0;
    int messages = 0;
    int window = 0;  ///< how many there is room for
  };
  /// Messages to another rank.
  struct Outgoing {
    int to = 0;
    int local = -1;   ///< the incoming channel, where that is this rank
    int buffers = 0;  ///< where it is not: how many there is room for
  };

  std::vector<Step> steps;
  std::vector<Incoming> incoming;
  std::vector<Outgoing> outgoing;
  int activation_buffers = 1;  ///< activations held at once

  /// Room for messages that it needs.
  int buffers() const;
};

PipelineProgram compile(const PipelineShape& shape, const std::vector<Schedule>& schedules,
                        int rank);

}  // namespace tessera
