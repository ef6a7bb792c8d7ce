// Proves lists of actions complete, ordered and free of deadlock, and counts what they cost.
#pragma once

#include <string>
#include <vector>

#include "tessera/pipeline/action.h"
#include "tessera/pipeline/stage_placement.h"

namespace tessera {

/// How long a stage's actions take, in any unit. A backward in one takes both of its halves.
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

/// What every rank does when, if each action starts as soon as its rank is free and what it needs
/// is there.
struct Timeline {
  std::vector<std::vector<TimedAction>> ranks;
  double length = 0;
};

struct ScheduleReport {
  Timeline timeline;
  double work = 0;             ///< of the rank that has most
  double lower_bound = 0;      ///< no schedule with such a backward (split or not) is shorter
  std::vector<int> in_flight;  ///< by rank: the most (chunk, microbatch)s held at once

  /// Idle time, as a part of the work.
  double bubble() const { return timeline.length / work - 1; }
  double least_bubble() const { return lower_bound / work - 1; }
};

/// By stage. One entry serves all.
using StageTimes = std::vector<ActionTimes>;

/// Throws unless every rank's list has every microbatch of every chunk once, in ascending order,
/// forward before backward, and the lists end when they run beside each other.
ScheduleReport check_schedules(const PipelineShape& shape, const std::vector<Schedule>& schedules,
                               const StageTimes& times = {{}});

}  // namespace tessera
