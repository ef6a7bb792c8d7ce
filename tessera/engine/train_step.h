// Training and evaluation steps of a session: forward and backward of all microbatches, gradient
// reduction, optimizer update.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "tessera/engine/session.h"

namespace tessera {

using NextBatch = std::function<const HostBatch&()>;

/// Asynchronous training steps on a session: they are launched on its stream, and their results are
/// collected later. On one GPU, or on several over NCCL, the first two steps run eagerly (kernel by
/// kernel) and all later ones replay a CUDA graph, unless the host reads token counts of experts
/// (waits_in_layers in train_step.cpp). Steps that a trace records run eagerly, and the graph is
/// captured again after them.
class Steps {
 public:
  Steps(Session& session, LossAverage average);

  /// Launches one whole step on the next microbatches. `eager`: without a CUDA graph. Either all
  /// ranks replay a graph or none does, so if one of them records a trace, all must pass `eager`.
  void submit(const NextBatch& next_batch, bool eager = false);
  /// submit() in two parts: forward, backward and gradient reduction; then the optimizer update.
  /// Never replays a graph.
  void submit_gradients(const NextBatch& next_batch);
  void submit_update();

  /// The number of records that have not been collected; at most Optimizer::kRecords are stored.
  std::int64_t pending() const { return submitted_ - collected_; }
  /// The records of all steps since the last call; waits for them.
  std::vector<StepRecord> collect();

 private:
  Session& session_;
  LossAverage average_;
  std::int64_t submitted_;        ///< iteration of the last submitted step (StepState::iteration)
  std::int64_t collected_;        ///< iteration of the last step whose record was collected
  bool replays_;                  ///< whether steps are captured in a graph
  std::int64_t eager_steps_ = 0;  ///< whole steps that were submitted without a graph
  std::optional<Graph> graph_;
  int graph_microbatches_ = 0;  ///< of the steps that it was captured for
};

struct StepResult {
  double loss = 0;
  double grad_norm = 0;
  double tokens = 0;  ///< number of unmasked labels
};

/// One step with the given learning rate; waits for its result.
StepResult train_step(Session& session, const NextBatch& next_batch, LossAverage average,
                      double learning_rate);

/// Runs forward and backward and reduces the gradients; returns loss, gradient norm and token
/// count. Does not update the weights.
StepResult compute_gradients(Session& session, const NextBatch& next_batch, LossAverage average);

/// Updates the weights with the gradients of the preceding compute_gradients().
void apply_gradients(Session& session, double learning_rate);

/// Runs forward only, on as many microbatches as a training step has; returns loss and token count.
StepResult evaluate_step(Session& session, const NextBatch& next_batch, LossAverage average);

}  // namespace tessera
