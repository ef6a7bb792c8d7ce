// Runs one rank's list of actions: receives what an action needs, runs it, sends what it made.
#pragma once

#include <vector>

#include "tessera/comm/communicator.h"
#include "tessera/pipeline/action.h"
#include "tessera/pipeline/stage.h"

namespace tessera {

/// Border buffers, one each: what came in and what goes out, forward and backward. Empty where
/// there is no neighbour.
struct BorderBuffers {
  View in, out, d_in, d_out;
};

class Executor {
 public:
  /// `pipeline` is the group along the pipeline axis; its rank is the stage number.
  Executor(Stage& stage, Communicator& pipeline, Stream& stream, BorderBuffers borders);

  /// Slots are dealt as microbatches start and return when they are done.
  void run(const Schedule& schedule);

 private:
  void run_forward(const Action& action);
  void run_backward(const Action& action);
  int take_slot(int microbatch);
  int slot_of(int microbatch) const;
  void free_slot(int microbatch);
  bool first() const { return pipeline_.rank() == 0; }
  bool last() const { return pipeline_.rank() == pipeline_.size() - 1; }

  Stage& stage_;
  Communicator& pipeline_;
  Stream& stream_;
  BorderBuffers borders_;
  std::vector<int> holder_;  ///< the microbatch in each slot, or -1
};

}  // namespace tessera
