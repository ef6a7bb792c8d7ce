#include "tessera/pipeline/executor.h"

#include <algorithm>

#include "tessera/base/check.h"
#include "tessera/pipeline/schedules.h"

namespace tessera {

Executor::Executor(Stage& stage, Communicator& pipeline, Stream& stream, BorderBuffers borders)
    : stage_(stage), pipeline_(pipeline), stream_(stream), borders_(borders) {}

void Executor::run(const Schedule& schedule) {
  holder_.assign(static_cast<std::size_t>(slots_needed(schedule)), -1);
  for (const Action& action : schedule) {
    switch (action.kind) {
      case ActionKind::forward: run_forward(action); break;
      case ActionKind::evaluate:
        run_forward(action);
        free_slot(action.microbatch);
        break;
      case ActionKind::backward:
      case ActionKind::backward_input: run_backward(action); break;
      case ActionKind::backward_weight:
        stage_.backward_weight(action.microbatch, slot_of(action.microbatch));
        free_slot(action.microbatch);
        break;
    }
  }
}

void Executor::run_forward(const Action& action) {
  if (!first()) pipeline_.recv(borders_.in, pipeline_.rank() - 1, stream_)->wait(stream_);
  stage_.forward(action.microbatch, take_slot(action.microbatch), borders_.out, borders_.in);
  if (!last()) pipeline_.send(borders_.out, pipeline_.rank() + 1, stream_)->wait(stream_);
}

void Executor::run_backward(const Action& action) {
  const int slot = slot_of(action.microbatch);
  if (!last()) pipeline_.recv(borders_.d_out, pipeline_.rank() + 1, stream_)->wait(stream_);
  if (action.kind == ActionKind::backward) {
    stage_.backward(action.microbatch, slot, borders_.d_in, borders_.d_out);
    free_slot(action.microbatch);
  } else {
    stage_.backward_input(action.microbatch, slot, borders_.d_in, borders_.d_out);
  }
  if (!first()) pipeline_.send(borders_.d_in, pipeline_.rank() - 1, stream_)->wait(stream_);
}

int Executor::take_slot(int microbatch) {
  const auto free = std::find(holder_.begin(), holder_.end(), -1);
  check(free != holder_.end(), "the schedule holds more microbatches than its {} slots",
        holder_.size());
  *free = microbatch;
  return static_cast<int>(free - holder_.begin());
}

int Executor::slot_of(int microbatch) const {
  const auto found = std::find(holder_.begin(), holder_.end(), microbatch);
  check(found != holder_.end(), "the schedule runs backward of microbatch {} before its forward",
        microbatch);
  return static_cast<int>(found - holder_.begin());
}

void Executor::free_slot(int microbatch) {
  holder_[static_cast<std::size_t>(slot_of(microbatch))] = -1;
}

}  // namespace tessera
