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
  int chunk = 0;  ///< of the model, among those that the rank has
  bool operator==(const Action&) const = default;
};

/// One rank's actions, in their order.
using Schedule = std::vector<Action>;

inline bool is_forward(ActionKind kind) {
  return kind == ActionKind::forward || kind == ActionKind::evaluate;
}
/// Whether it gives the stage before its gradient.
inline bool is_backward(ActionKind kind) {
  return kind == ActionKind::backward || kind == ActionKind::backward_input;
}
/// Whether nothing of the microbatch is needed afterwards.
inline bool ends_microbatch(ActionKind kind) {
  return kind == ActionKind::evaluate || kind == ActionKind::backward ||
         kind == ActionKind::backward_weight;
}

}  // namespace tessera
