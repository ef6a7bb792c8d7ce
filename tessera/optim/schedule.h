// The learning rate and the weight decay as pure functions of the samples consumed before the step,
// with Megatron's formulas.
#pragma once

#include "tessera/kernels/step_state.h"
#include "tessera/options/optim_options.h"

namespace tessera {

/// `options` must be resolved (decay and warmup filled in); one iteration consumes `global_batch`
/// samples.
double learning_rate(const ScheduleOptions& options, std::int64_t global_batch,
                     std::int64_t consumed_samples);

/// The weight decay, which changes over the `run_samples` of the run.
double weight_decay(const ScheduleOptions& options, double constant, std::int64_t run_samples,
                    std::int64_t consumed_samples);

/// All that the schedule gives an update.
StepRates step_rates(const ScheduleOptions& schedule, const OptimizerOptions& optimizer,
                     std::int64_t run_samples, std::int64_t global_batch,
                     std::int64_t consumed_samples);

}  // namespace tessera
