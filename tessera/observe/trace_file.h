// A trace as a file in Chrome's trace format, which Perfetto (ui.perfetto.dev) shows.
#pragma once

#include <string>
#include <vector>

#include "tessera/base/files.h"
#include "tessera/tensor/trace.h"

namespace tessera {

/// A process per rank; in it a thread for the host, one for the kernels of each stream and one for
/// its copies. Categories and arguments have the names of PyTorch's traces where those have them.
/// `start` is time 0 by the system's clock, in nanoseconds.
std::string trace_json(const std::vector<TraceEvent>& events, int rank, std::int64_t start = 0);

/// InputError unless the file can be created, or holds a trace, which is replaced.
void check_trace_place(const fs::path& file);
/// Creates the folder; after a crash the file is complete or has its old content.
void write_trace(const fs::path& file, const std::vector<TraceEvent>& events, int rank,
                 std::int64_t start = 0);

}  // namespace tessera
