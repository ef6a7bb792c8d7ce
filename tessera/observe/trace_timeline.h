// The timeline of a pipeline as a run's traces show it.
#pragma once

#include <vector>

#include "tessera/base/files.h"
#include "tessera/pipeline/check.h"

namespace tessera {

/// Of the last step that all files have, a row for each; in milliseconds from its first action. On
/// a GPU an action lasts from the first to the last kernel that it launched. InputError when a file
/// holds no such thing.
Timeline timeline_of_traces(const std::vector<fs::path>& files);

}  // namespace tessera
