// Schedule search, for stages with different durations and under a memory limit.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tessera/pipeline/check.h"

namespace tessera {

/// Durations as given by a user: three numbers (forward, input gradient, weight gradient) for all
/// stages, or three per stage.
StageTimes times_of(std::span<const double> numbers, int stages);

/// The number of actions that a search simulates over all candidates; it then returns the best one
/// so far. Every rank searches on its own and must find the same schedule, so the limit is not a
/// time.
inline constexpr std::int64_t kSearchBudget = 10'000'000;

/// Schedules with a split backward for ranks with one chunk each, with at most `memory_limit`
/// microbatches in flight per rank: the shortest of the candidates, and never longer than ZB-H1 if
/// that fits. Deterministic.
std::vector<Schedule> search_schedules(const PipelineShape& shape, const StageTimes& times,
                                       int memory_limit, std::int64_t budget = kSearchBudget);

}  // namespace tessera
