// The schedules: pure functions from a shape and a stage to that stage's actions.
#pragma once

#include "tessera/pipeline/action.h"

namespace tessera {

/// One forward, one backward: warm-up forwards until the pipeline is full, then a backward after
/// each forward.
Schedule one_f_one_b(const PipelineShape& shape, int stage);

/// The same order with each backward split: weight gradients wait until the stage would otherwise
/// idle (the end).
Schedule one_f_one_b_split(const PipelineShape& shape, int stage);

/// Evaluation: every microbatch forward, its slot free at once.
Schedule forward_only(const PipelineShape& shape);

/// How many microbatches a stage holds activations of at once.
int slots_needed(const Schedule& schedule);

}  // namespace tessera
