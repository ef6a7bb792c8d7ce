// Finds the rank that waits longest for its data. A step is as slow as the slowest rank, so the
// waits of the others do not matter.
#pragma once

#include "tessera/train/consistency_check.h"

namespace tessera {

class DataWaits {
 public:
  struct Longest {
    double seconds = 0;  ///< per iteration, on average
    int rank = 0;
  };

  /// For a run that starts or resumes at an iteration.
  DataWaits(Session& session, std::int64_t iteration)
      : session_(session), consistency_check_(session), iteration_(iteration) {}

  /// Collective: the rank that has waited longest since the last call. `waited` is the total of
  /// this rank up to the end of `iteration`, in seconds.
  Longest since_last(double waited, std::int64_t iteration);

 private:
  Session& session_;
  ConsistencyCheck consistency_check_;
  std::int64_t iteration_;
  double waited_ = 0;
};

/// Whether waiting for data slows down a run noticeably.
bool is_held_up(double wait_seconds, double step_seconds);

}  // namespace tessera
