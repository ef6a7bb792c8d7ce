// What changes from step to step, in one small block of device memory: kernels read it and decide
// by it, so a step needs no host synchronisation and can be captured. The host reads records later.
#pragma once

#include <cmath>
#include <cstdint>

#include "tessera/base/dtype.h"

namespace tessera {

/// What is done about gradients that overflow: they are a fault and end the run (none), or the step
/// is skipped (constant), and the scale adapts with Megatron's rules (dynamic): after `hysteresis`
/// skipped steps it is halved, `growth_interval` good steps in a row double it.
enum class LossScaling { none, constant, dynamic };

/// Rules of a run, the same for every step.
struct StepRules {
  double max_norm = 0;      ///< gradients are clipped to this global norm; 0 means never
  double weight_decay = 0;  ///< of the ranges that decay
  LossScaling scaling = LossScaling::none;
  double least_scale = 1;
  std::int64_t growth_interval = 1000;
  std::int64_t hysteresis = 2;
};

struct StepState {
  std::int64_t iteration = 0;         ///< steps tried
  std::int64_t step = 0;              ///< steps that updated the weights: Adam's t
  double loss_scale = 1;              ///< what gradients are multiplied by
  std::int64_t good_steps = 0;        ///< in a row, since the scale last changed
  std::int64_t overflows_left = 2;    ///< before the scale is halved
  std::int64_t failed_iteration = 0;  ///< the first that was not finite for no fault of the scale
  std::int64_t rates_begin = 0;       ///< the value of `step` before the first of the known rates
  // Of this step, as finish_step leaves them for the update:
  double learning_rate = 0;
  double weight_decay = 0;
  double grad_norm = 0;      ///< of the true gradients, not of the scaled ones
  double clip_factor = 1;    ///< times 1 / loss_scale
  std::int64_t skipped = 0;  ///< 1: the update leaves everything as it is
};

/// How many losses a model may have besides the cross entropy.
inline constexpr int kMaxExtraLosses = 8;

/// One step in the words of the log. Records lie in a ring, by iteration.
struct StepRecord {
  std::int64_t iteration = 0;
  std::int64_t step = 0;
  double loss = 0;
  double grad_norm = 0;
  double learning_rate = 0;
  double loss_scale = 1;
  std::int64_t skipped = 0;
  std::int64_t failed = 0;  ///< the run must stop: this step was not finite, or one before it
  double extra_losses[kMaxExtraLosses] = {};  ///< in the order of the model's names for them
};

/// Sums that a step ends with: of squares of the (scaled) gradients, and the weighted loss.
struct StepSums {
  double squares, loss;
};

namespace detail {

// Megatron's scaler: overflows are counted down until growth resets the count.
TESSERA_HOST_DEVICE inline void adapt_scale(StepState& state, bool overflow,
                                            const StepRules& rules) {
  if (overflow) {
    state.good_steps = 0;
    state.overflows_left -= 1;
    if (state.overflows_left <= 0) {
      const double halved = state.loss_scale / 2;
      state.loss_scale = halved > rules.least_scale ? halved : rules.least_scale;
    }
    return;
  }
  state.good_steps += 1;
  if (state.good_steps < rules.growth_interval) return;
  state.good_steps = 0;
  state.overflows_left = rules.hysteresis;
  state.loss_scale *= 2;
}

}  // namespace detail

/// Decides whether and how far the weights move, and returns the step's record. Every backend runs
/// this same function, so they agree.
TESSERA_HOST_DEVICE inline StepRecord finish_step_state(StepState& state, const StepSums& sums,
                                                        const double* rates,
                                                        std::int64_t rate_count,
                                                        const StepRules& rules) {
  const double scale = state.loss_scale;
  const double norm = std::sqrt(sums.squares) / scale;
  const bool overflow = !std::isfinite(norm);
  state.iteration += 1;
  if (rules.scaling == LossScaling::dynamic) detail::adapt_scale(state, overflow, rules);
  // The loss does not know the scale, so a smaller one would not fix it.
  const bool failed = !std::isfinite(sums.loss) || (overflow && rules.scaling == LossScaling::none);
  if (failed && state.failed_iteration == 0) state.failed_iteration = state.iteration;
  state.skipped = overflow || state.failed_iteration != 0 ? 1 : 0;
  // The schedule counts updates: a skipped step has the rate of the next one that counts.
  const std::int64_t next = state.step - state.rates_begin;
  state.learning_rate = rates[next < rate_count ? next : rate_count - 1];
  state.weight_decay = rules.weight_decay;
  state.grad_norm = norm;
  const double factor = rules.max_norm / (norm + 1e-6);
  state.clip_factor = (rules.max_norm > 0 && factor < 1 ? factor : 1.0) / scale;
  if (state.skipped == 0) state.step += 1;
  return {state.iteration,
          state.step,
          sums.loss,
          norm,
          state.learning_rate,
          scale,
          state.skipped,
          state.failed_iteration != 0 ? 1 : 0,
          {}};
}

}  // namespace tessera
