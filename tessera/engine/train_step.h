// One training step, in one short file.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "tessera/engine/session.h"

namespace tessera {

using NextBatch = std::function<const HostBatch&()>;

/// Asynchronous training steps on a session: they are launched on its stream, and their results are
/// collected later. On a GPU, alone or over NCCL, the third step and all later ones replay a CUDA
/// graph. Steps recorded by a trace are launched call by call, and the graph is captured again
/// after them.
class Steps {
 public:
  Steps(Session& session, LossAverage average);

  /// Launches one whole step on the next microbatches. Ranks replay graphs together or not at all,
  /// so if one of them records a trace, all submit `eager`.
  void submit(const NextBatch& next_batch, bool eager = false);
  /// The same in two halves, to inspect the gradients in between.
  void submit_gradients(const NextBatch& next_batch);
  void submit_update();

  /// The number of records that have not been collected; at most Optimizer::kRecords are stored.
  std::int64_t pending() const { return submitted_ - collected_; }
  /// The records of all steps since the last call; waits for them.
  std::vector<StepRecord> collect();

 private:
  Session& session_;
  LossAverage average_;
  std::int64_t submitted_;  ///< iterations, counted like the state on the device
  std::int64_t collected_;
  bool replays_;                  ///< whether steps are captured in a graph
  std::int64_t eager_steps_ = 0;  ///< whole steps launched call by call
  std::optional<Graph> graph_;
};

struct StepResult {
  double loss = 0;
  double grad_norm = 0;
  double tokens = 0;  ///< labels that counted
};

/// One step with the given learning rate; waits for its result.
StepResult train_step(Session& session, const NextBatch& next_batch, LossAverage average,
                      double learning_rate);

/// The gradients of the batches, their norm, and the loss; no update.
StepResult compute_gradients(Session& session, const NextBatch& next_batch, LossAverage average);

/// The update with those gradients and the given learning rate.
void apply_gradients(Session& session, double learning_rate);

/// The loss of one step's worth of batches, without gradients.
StepResult evaluate_step(Session& session, const NextBatch& next_batch, LossAverage average);

}  // namespace tessera
