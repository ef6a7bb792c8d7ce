// What `inspect --mesh` and `--schedule` draw: the ranks and the pipeline of a training, of one
// that `train` refuses too.
#pragma once

#include <string>
#include <vector>

#include "tessera/config/parse.h"

namespace tessera {

struct MeshCheck {
  int ranks = 1;                      ///< --nproc, or without it the fewest that the degrees take
  std::vector<std::string> refusals;  ///< why train would not run it, a line each
};

/// Resolves the options for as many ranks. A model that comes from a folder must be there.
/// InputError when the ranks cannot form the mesh.
MeshCheck check_mesh(ParsedCommand& parsed);

/// The same for `inspect --schedule`. InputError when there is no such pipeline, too.
MeshCheck check_schedule(ParsedCommand& parsed);

/// Plans show a pipeline at work: unless --global-batch-size was given, the batch becomes one that
/// fills it. Options must be resolved.
void fill_pipeline(ParsedCommand& parsed);

}  // namespace tessera
