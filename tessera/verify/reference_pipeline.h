// The pipeline of a reference model (reference_model.h): fewer ranks and shorter stages, in the
// same relation to each other.
#pragma once

#include <string>
#include <vector>

#include "tessera/engine/session.h"

namespace tessera {

/// Of a valid layout: its pipeline, and the numbers of layers and microbatches. `least_layers`: as
/// many layers remain, at least.
void shrink_pipeline(SessionOptions& reference, std::int64_t least_layers);

/// What became of it, a line each: "pipeline-model-parallel-size 8 -> 4".
std::vector<std::string> pipeline_changes(const SessionOptions& before,
                                          const SessionOptions& after);

}  // namespace tessera
