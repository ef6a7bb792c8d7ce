// The learning rate as a pure function of the samples consumed before the step, with Megatron's
// formulas.
#pragma once

#include "tessera/options/optim_options.h"

namespace tessera {

/// `options` must be resolved (decay_iters and warmup filled in); one iteration consumes
/// `global_batch` samples.
double learning_rate(const ScheduleOptions& options, std::int64_t global_batch,
                     std::int64_t consumed_samples);

}  // namespace tessera
