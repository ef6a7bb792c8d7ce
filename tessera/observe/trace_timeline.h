// The timeline of a pipeline, reconstructed from the traces of a run.
#pragma once

#include <vector>

#include "tessera/base/files.h"
#include "tessera/pipeline/check.h"

namespace tessera {

/// The last step that all files contain, one row per file, in milliseconds from its first action.
/// On a GPU an action lasts from the first to the last kernel that it launched. InputError if a
/// file has no such step.
Timeline timeline_of_traces(const std::vector<fs::path>& files);

}  // namespace tessera
