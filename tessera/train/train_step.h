// One training step, on one page.
#pragma once

#include <functional>

#include "tessera/train/session.h"

namespace tessera {

/// How the losses of a step's tokens are weighed.
enum class LossAverage {
  per_microbatch,  ///< the mean over microbatches of the mean over their tokens (Megatron's
                   ///< default)
  per_token,       ///< the mean over all tokens of the step
};

struct StepResult {
  double loss = 0;
  double grad_norm = 0;
  double tokens = 0;  ///< labels that counted
};

/// Fetches each microbatch from `next_batch`, computes gradients, and updates the parameters.
StepResult train_step(Session& session, const std::function<const HostBatch&()>& next_batch,
                      LossAverage average, double learning_rate);

/// The first half: gradients of the batches, their norm, and the loss; no update.
StepResult compute_gradients(Session& session, const std::function<const HostBatch&()>& next_batch,
                             LossAverage average);

/// The loss of one step's worth of batches, without gradients.
StepResult evaluate_step(Session& session, const std::function<const HostBatch&()>& next_batch,
                         LossAverage average);

}  // namespace tessera
