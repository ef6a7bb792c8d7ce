// The mesh and the pipeline that `inspect --mesh` and `--schedule` draw, also for configurations
// that `train` refuses.
#pragma once

#include <string>
#include <vector>

#include "tessera/config/parse.h"

namespace tessera {

/// The smallest number of ranks that the parallel sizes need, experts included. InputError if it is
/// beyond the limit.
int fewest_ranks(Options options);

struct MeshCheck {
  int ranks = 1;  ///< --nproc, or without it the smallest number for the parallel sizes
  std::vector<std::string> refusals;  ///< the reasons why train would refuse it, one line each
};

/// Resolves the options for that many ranks. A model that is loaded from a folder must exist.
/// InputError if the ranks cannot form the mesh.
MeshCheck check_mesh(ParsedCommand& parsed);

/// The same for `inspect --schedule`. Also an InputError if there is no such pipeline.
MeshCheck check_schedule(ParsedCommand& parsed);

/// Unless --global-batch-size was given, sets a batch size that fills the pipeline, so that a plan
/// shows it at work. Options must be resolved.
void fill_pipeline(ParsedCommand& parsed);

}  // namespace tessera
