// Checks that schedules are complete, ordered and deadlock-free, and computes their cost.
#pragma once

#include <string>
#include <vector>

#include "tessera/pipeline/action.h"
#include "tessera/pipeline/stage_placement.h"

namespace tessera {

/// The durations of a stage's actions, in any unit. An unsplit backward takes the sum of its two
/// halves.
struct ActionTimes {
  double forward = 1;
  double backward_input = 1;
  double backward_weight = 1;

  double of(ActionKind kind) const;
};

struct TimedAction {
  Action action;
  double begin = 0;
  double end = 0;
};

/// The times of all actions of all ranks, if each action starts as soon as its rank is free and its
/// input is available.
struct Timeline {
  std::vector<std::vector<TimedAction>> ranks;
  double length = 0;
};

struct ScheduleReport {
  Timeline timeline;
  double work = 0;         ///< of the busiest rank
  double lower_bound = 0;  ///< no schedule with the same kind of backward (split or not) is shorter
  /// By rank: the maximum number of (chunk, microbatch) pairs in flight
  std::vector<int> in_flight;

  /// Idle time as a fraction of the work.
  double bubble() const { return timeline.length / work - 1; }
  double least_bubble() const { return lower_bound / work - 1; }
};

/// By stage. A single entry applies to all.
using StageTimes = std::vector<ActionTimes>;

/// Throws unless every rank's list has each microbatch of each chunk once, in ascending order, with
/// forward before backward, and the lists run to their end without deadlock.
ScheduleReport check_schedules(const PipelineShape& shape, const std::vector<Schedule>& schedules,
                               const StageTimes& times = {{}});

}  // namespace tessera
