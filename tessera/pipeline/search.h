// A schedule found by search: for stages that take different times, under a limit of memory.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tessera/pipeline/check.h"

namespace tessera {

/// Times as a user gives them: three numbers (forward, input gradient, weight gradient) for all
/// stages, or three for each.
StageTimes times_of(std::span<const double> numbers, int stages);

/// How many actions a search simulates, all lists that it tries together; then it takes the best so
/// far. Every rank searches by itself and must find the same, so a search is not limited by time.
inline constexpr std::int64_t kSearchBudget = 10'000'000;

/// Lists with a split backward for ranks of one chunk each, of which none holds more than
/// `memory_limit` microbatches: the shortest of those that are tried, and never longer than ZB-H1
/// where that fits. The same for the same arguments, everywhere.
std::vector<Schedule> search_schedules(const PipelineShape& shape, const StageTimes& times,
                                       int memory_limit, std::int64_t budget = kSearchBudget);

}  // namespace tessera
