// The output of `inspect --schedule`.
#pragma once

#include <string>

#include "tessera/engine/session.h"

namespace tessera {

/// The plan: stages, timeline, bubble and memory of a training step; `svg` is its image.
struct ScheduleText {
  std::string text;
  std::string svg;
};
ScheduleText planned_schedule(const SessionOptions& options);

/// The same for a run, from the traces of rank 0 and of the other ranks in the same folder, next to
/// the numbers of the plan.
ScheduleText recorded_schedule(const SessionOptions& options, const std::string& trace);

}  // namespace tessera
