#include "tessera/pipeline/schedules.h"

#include <algorithm>

namespace tessera {

Schedule one_f_one_b(const PipelineShape& shape, int stage) {
  const int warm_up = std::min(shape.microbatches, shape.stages - 1 - stage);
  Schedule schedule;
  for (int m = 0; m < warm_up; ++m) schedule.push_back({ActionKind::forward, m});
  for (int m = warm_up; m < shape.microbatches; ++m) {
    schedule.push_back({ActionKind::forward, m});
    schedule.push_back({ActionKind::backward, m - warm_up});
  }
  for (int m = shape.microbatches - warm_up; m < shape.microbatches; ++m)
    schedule.push_back({ActionKind::backward, m});
  return schedule;
}

Schedule one_f_one_b_split(const PipelineShape& shape, int stage) {
  Schedule schedule;
  for (Action action : one_f_one_b(shape, stage)) {
    if (action.kind == ActionKind::backward) action.kind = ActionKind::backward_input;
    schedule.push_back(action);
  }
  for (int m = 0; m < shape.microbatches; ++m) schedule.push_back({ActionKind::backward_weight, m});
  return schedule;
}

Schedule forward_only(const PipelineShape& shape) {
  Schedule schedule;
  for (int m = 0; m < shape.microbatches; ++m) schedule.push_back({ActionKind::evaluate, m});
  return schedule;
}

int slots_needed(const Schedule& schedule) {
  int held = 0;
  int most = 1;  // evaluation borrows one slot
  for (const Action& action : schedule) {
    if (action.kind == ActionKind::forward) most = std::max(most, ++held);
    if (action.kind == ActionKind::backward || action.kind == ActionKind::backward_weight) --held;
  }
  return most;
}

}  // namespace tessera
