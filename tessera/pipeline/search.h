// A schedule found by search: for stages that take different times, under a limit of memory.
#pragma once

#include <span>
#include <vector>

#include "tessera/pipeline/check.h"

namespace tessera {

/// Times as a user gives them: three numbers (forward, input gradient, weight gradient) for all
/// stages, or three for each.
StageTimes times_of(std::span<const double> numbers, int stages);

/// Lists with a split backward for ranks of one chunk each, of which none holds more than
/// `memory_limit` microbatches: the shortest of those that are tried, and never longer than ZB-H1
/// where that fits.
std::vector<Schedule> search_schedules(const PipelineShape& shape, const StageTimes& times,
                                       int memory_limit);

}  // namespace tessera
