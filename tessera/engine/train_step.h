// One training step, on one page.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "tessera/engine/session.h"

namespace tessera {

using NextBatch = std::function<const HostBatch&()>;

/// Training steps on a session. They are put on its stream and nobody waits for them: what became
/// of them is collected later. On a GPU, alone or over NCCL, the third step and all after it replay
/// a graph, but for those that a trace records; the graph is made anew after them.
class Steps {
 public:
  Steps(Session& session, LossAverage average);

  /// One whole step on the next microbatches. Ranks replay graphs together or not at all, so where
  /// one of them records, all submit `call_by_call`.
  void submit(const NextBatch& next_batch, bool call_by_call = false);
  /// The same in two halves, for those who want to see the gradients in between.
  void submit_gradients(const NextBatch& next_batch);
  void submit_update();

  /// How many records wait to be collected; there is room for Optimizer::kRecords.
  std::int64_t pending() const { return submitted_ - collected_; }
  /// The records of all steps since the last call; waits for them.
  std::vector<StepRecord> collect();

 private:
  Session& session_;
  LossAverage average_;
  std::int64_t submitted_;  ///< iterations, counted like the state on the device
  std::int64_t collected_;
  bool replays_;             ///< whether steps become a graph
  std::int64_t called_ = 0;  ///< whole steps submitted call by call
  std::optional<Graph> graph_;
};

struct StepResult {
  double loss = 0;
  double grad_norm = 0;
  double tokens = 0;  ///< labels that counted
};

/// One step with a rate of its own, and its result at once.
StepResult train_step(Session& session, const NextBatch& next_batch, LossAverage average,
                      double learning_rate);

/// Gradients of the batches, their norm, and the loss; no update.
StepResult compute_gradients(Session& session, const NextBatch& next_batch, LossAverage average);

/// The update that they are for, with a rate of its own.
void apply_gradients(Session& session, double learning_rate);

/// The loss of one step's worth of batches, without gradients.
StepResult evaluate_step(Session& session, const NextBatch& next_batch, LossAverage average);

}  // namespace tessera
