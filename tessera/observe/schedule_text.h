// What `inspect --schedule` says.
#pragma once

#include <string>

#include "tessera/engine/session.h"

namespace tessera {

/// The plan: stages, timeline, bubble and memory of a training step; `svg` is its picture.
struct ScheduleText {
  std::string text;
  std::string svg;
};
ScheduleText planned_schedule(const SessionOptions& options);

/// The same of a run, from the trace that rank 0 wrote and those beside it, with the plan's numbers
/// beside the run's.
ScheduleText recorded_schedule(const SessionOptions& options, const std::string& trace);

}  // namespace tessera
