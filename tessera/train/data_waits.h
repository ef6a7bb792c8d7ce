// Which rank waits longest for its data. A step is as slow as the slowest rank, so the others'
// waits tell nothing of it.
#pragma once

#include "tessera/train/consistency_check.h"

namespace tessera {

class DataWaits {
 public:
  struct Longest {
    double seconds = 0;  ///< of an iteration, on average
    int rank = 0;
  };

  /// Of a run that goes on from an iteration.
  DataWaits(Session& session, std::int64_t iteration)
      : session_(session), consistency_check_(session), iteration_(iteration) {}

  /// All ranks together: who has waited longest since the last call. `waited` are all seconds of
  /// this rank up to the end of `iteration`.
  Longest since_last(double waited, std::int64_t iteration);

 private:
  Session& session_;
  ConsistencyCheck consistency_check_;
  std::int64_t iteration_;
  double waited_ = 0;
};

/// Whether waiting is what makes a run slow, and not what happens now and then.
bool is_held_up(double wait_seconds, double step_seconds);

}  // namespace tessera
