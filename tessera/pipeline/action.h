// A pipeline schedule is data: for each rank a list of actions. Nothing here knows tensors or time.
#pragma once

#include <vector>

namespace tessera {

enum class ActionKind {
  forward,         ///< of one microbatch
  evaluate,        ///< forward without a backward to follow
  backward,        ///< input and weight gradients together
  backward_input,  ///< the input gradient alone; the weight gradient follows later
  backward_weight,
};

struct Action {
  ActionKind kind = ActionKind::forward;
  int microbatch = 0;
  bool operator==(const Action&) const = default;
};

struct PipelineShape {
  int stages = 1;
  int microbatches = 1;
};

using Schedule = std::vector<Action>;

}  // namespace tessera
