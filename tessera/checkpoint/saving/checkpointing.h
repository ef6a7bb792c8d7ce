// Saves and loads a session's state: the contents of a checkpoint besides tensors, and how each
// rank reads its part from a checkpoint of any layout.
#pragma once

#include <optional>
#include <string>

#include "tessera/checkpoint/checkpoint.h"
#include "tessera/engine/session.h"

namespace tessera {

/// Where a run stands.
struct Progress {
  std::int64_t iteration = 0;
  std::int64_t consumed_samples = 0;
  std::int64_t schedule_samples = 0;        ///< of the steps that were not skipped
  std::int64_t schedule_iterations = 0;     ///< those steps
  bool evaluation_due = false;              ///< the run was stopped before it evaluated
  std::optional<std::uint64_t> order_seed;  ///< of the samples' order, where it is known
  /// How many samples the order was made for when the run began, and each time that it went on for
  /// more than there were.
  std::vector<std::int64_t> order_samples;
  /// --dataloader-type cyclic: the ranks that the order was made for.
  struct OrderShape {
    std::int64_t micro_batch_size = 0;
    int ranks = 0;
  };
  std::optional<OrderShape> order_shape;
  /// Digest of all samples consumed (data/sample_order.h); nothing if a run began without one.
  std::optional<std::uint64_t> order_digest = 0;
};

/// The counters that a checkpoint keeps. All ranks may call it.
std::string state_of(Session& session, const Progress& progress);
Progress progress_of(const Checkpoint& checkpoint);

/// The type of a checkpoint's weights.
DType weight_type(const Checkpoint& checkpoint);

/// The weights, checked for names and shapes. Of another type than the session's they are
/// converted, from the master weights where there are any. `upcycle`: the session's model has
/// experts, and the checkpoint's is the dense one that it starts from (upcycling.h).
void load_weights(Session& session, Checkpoint& checkpoint, bool upcycle = false);
/// The optimizer's state and count; InputError when the checkpoint was saved without it. Follows
/// load_weights.
void load_optimizer(Session& session, Checkpoint& checkpoint);

}  // namespace tessera
