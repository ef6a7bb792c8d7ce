// Tables of the time spent in traced steps.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/tensor/trace.h"

namespace tessera {

/// By kernel, copy and set: time and calls per step, mean, share; the longest first, at most `most`
/// of them (0: all). Empty for a trace of a CPU.
std::string kernel_table(const std::vector<TraceEvent>& events, std::int64_t steps,
                         std::size_t most = 0);

/// By range, as a tree. On a GPU the time is that of the kernels and copies that were launched in a
/// range; on a CPU, where an op is over when it returns, that of the range itself.
std::string range_table(const std::vector<TraceEvent>& events, std::int64_t steps);

/// The non-empty ones of the two, each preceded by an empty line.
std::string trace_tables(const std::vector<TraceEvent>& events, std::int64_t steps,
                         std::size_t most = 0);

}  // namespace tessera
