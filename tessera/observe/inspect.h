// Description of a model and the resources to train it, without running it.
#pragma once

#include <string>

#include "tessera/engine/session.h"
#include "tessera/tensor/memory.h"

namespace tessera {

/// The memory that a session of these options would hold on a rank of the pipeline, by use; nothing
/// large is allocated.
MemoryCounters plan_memory(const SessionOptions& options, int threads, int pipeline_rank = 0);

/// A table of every parameter (name, shape, size), totals, FLOPs, and with a batch shape the memory
/// by use, of each pipeline rank.
std::string inspect_text(const SessionOptions& options, int threads);

}  // namespace tessera
