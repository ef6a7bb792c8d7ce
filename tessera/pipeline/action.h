// The actions of a pipeline schedule. A schedule is data: a list of actions per rank. It does not
// depend on tensors or time.
#pragma once

#include <vector>

namespace tessera {

enum class ActionKind {
  forward,         ///< of one microbatch
  evaluate,        ///< forward without a following backward
  backward,        ///< input and weight gradients together
  backward_input,  ///< the input gradient alone; the weight gradient follows later
  backward_weight,
};

struct Action {
  ActionKind kind = ActionKind::forward;
  int microbatch = 0;
  int chunk = 0;  ///< index among the rank's chunks of the model
  bool operator==(const Action&) const = default;
};

/// The actions of one rank, in order.
using Schedule = std::vector<Action>;

inline bool is_forward(ActionKind kind) {
  return kind == ActionKind::forward || kind == ActionKind::evaluate;
}
/// Whether it produces the gradient for the previous stage.
inline bool is_backward(ActionKind kind) {
  return kind == ActionKind::backward || kind == ActionKind::backward_input;
}
/// Whether the microbatch needs no memory afterwards.
inline bool ends_microbatch(ActionKind kind) {
  return kind == ActionKind::evaluate || kind == ActionKind::backward ||
         kind == ActionKind::backward_weight;
}

}  // namespace tessera
