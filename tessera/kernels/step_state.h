// The state that changes from step to step, in one small block of device memory. Kernels read it
// and branch on it, so a step needs no synchronisation with the host and can be captured in a CUDA
// graph. The host reads the step records later.
#pragma once

#include <cmath>
#include <cstdint>

#include "tessera/base/dtype.h"

namespace tessera {

/// The response to a gradient overflow. none: an error, the run ends. constant: the step is
/// skipped. dynamic: the step is skipped and the loss scale adapts by Megatron's rules: it is
/// halved after `hysteresis` skipped steps, and doubled after `growth_interval` good steps in a
/// row.
enum class LossScaling { none, constant, dynamic };

/// Settings of a run, constant over all steps.
struct StepRules {
  double max_norm = 0;  ///< gradients are clipped to this global norm; 0: no clipping
  LossScaling scaling = LossScaling::none;
  double least_scale = 1;
  std::int64_t growth_interval = 1000;
  std::int64_t hysteresis = 2;
  /// Without loss scaling, a step that is not finite ends the run; otherwise it is skipped.
  bool stops_if_not_finite = true;
};

/// What the schedule gives an update.
struct StepRates {
  double learning_rate = 0;
  double decoupled_rate = 0;  ///< of ranges with a learning rate of their own
  double weight_decay = 0;    ///< of ranges with decay
};
/// The rates of several updates are f64 [updates, kStepRates].
inline constexpr std::int64_t kStepRates = sizeof(StepRates) / sizeof(double);

/// The state itself, held on the device in a u8 tensor of sizeof(StepState) bytes.
struct StepState {
  std::int64_t iteration = 0;         ///< steps attempted, skipped ones included
  std::int64_t step = 0;              ///< steps that updated the weights: t of Adam
  double loss_scale = 1;              ///< the loss, hence every gradient, is multiplied by it
  std::int64_t good_steps = 0;        ///< in a row, since the scale last changed
  std::int64_t overflows_left = 2;    ///< before the scale is halved
  std::int64_t failed_iteration = 0;  ///< first iteration that failed; 0: none
  std::int64_t rates_begin = 0;       ///< the value of `step` before the first of the known rates
  // Values of the current step, set by finish_step for the update:
  StepRates rates = {};
  double grad_norm = 0;      ///< norm of the unscaled gradients
  double clip_factor = 1;    ///< clipping factor x 1 / loss_scale
  std::int64_t skipped = 0;  ///< 1: the update does nothing

  /// The learning rate of a range.
  TESSERA_HOST_DEVICE double rate(bool decoupled) const {
    return decoupled ? rates.decoupled_rate : rates.learning_rate;
  }
};

/// Maximum number of losses besides the cross-entropy (such as auxiliary losses of MoE routers),
/// and of statistics that are recorded with them.
inline constexpr int kMaxExtraLosses = 16;

/// The record of one step for the log. Records are stored in a ring, indexed by iteration.
struct StepRecord {
  std::int64_t iteration = 0;
  std::int64_t step = 0;
  double loss = 0;
  double grad_norm = 0;
  double learning_rate = 0;
  double loss_scale = 1;
  std::int64_t skipped = 0;
  std::int64_t failed = 0;  ///< 1: this step or an earlier one failed; stop the run
  double extra_losses[kMaxExtraLosses] = {};  ///< in the order of the model's names for them
};

/// Sums over a step, over all ranks: squares of the (scaled) gradients, and the weighted loss.
struct StepSums {
  double squares, loss;
};

namespace detail {

// Megatron's dynamic loss scaler. overflows_left counts down from `hysteresis`; while it is at or
// below 0 every further overflow halves the scale. Only growth resets the counter. The scale is not
// halved below least_scale.
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

/// Ends a step: decides whether the weights are updated, with which learning rate and clipping, and
/// returns the step's record. All backends and all ranks run this function on the same sums, so
/// they decide alike.
///
/// rates [rate_count]: those of the steps rates_begin, rates_begin + 1, ...; the last ones are used
/// beyond the end.
TESSERA_HOST_DEVICE inline StepRecord finish_step_state(StepState& state, const StepSums& sums,
                                                        const StepRates* rates,
                                                        std::int64_t rate_count,
                                                        const StepRules& rules) {
  const double scale = state.loss_scale;
  // inf or NaN in any gradient makes the sum of squares, and so the norm, non-finite.
  const double norm = std::sqrt(sums.squares) / scale;
  const bool overflow = !std::isfinite(norm);
  state.iteration += 1;
  if (rules.scaling == LossScaling::dynamic) detail::adapt_scale(state, overflow, rules);
  // The loss is not multiplied by the scale, so a smaller scale would not make it finite. A failure
  // is permanent: all later steps are skipped until the host stops the run.
  const bool fault = !std::isfinite(sums.loss) || (overflow && rules.scaling == LossScaling::none);
  const bool failed = fault && rules.stops_if_not_finite;
  if (failed && state.failed_iteration == 0) state.failed_iteration = state.iteration;
  state.skipped = overflow || fault || state.failed_iteration != 0 ? 1 : 0;
  // The schedule counts updates, not iterations: a skipped step does not advance it.
  const std::int64_t next = state.step - state.rates_begin;
  state.rates = rates[next < rate_count ? next : rate_count - 1];
  state.grad_norm = norm;
  // 1e-6 as in PyTorch and Megatron. A non-finite norm makes the factor meaningless; the step is
  // skipped.
  const double factor = rules.max_norm / (norm + 1e-6);
  state.clip_factor = (rules.max_norm > 0 && factor < 1 ? factor : 1.0) / scale;
  if (state.skipped == 0) state.step += 1;
  return {state.iteration,
          state.step,
          sums.loss,
          norm,
          state.rates.learning_rate,
          scale,
          state.skipped,
          state.failed_iteration != 0 ? 1 : 0,
          {}};
}

}  // namespace tessera
