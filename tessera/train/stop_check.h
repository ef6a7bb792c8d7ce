// Periodic check between steps, with the same result on all ranks: whether the run is to stop, and
// whether all ranks have written their part of a checkpoint.
#pragma once

#include <chrono>
#include <cstdint>

#include "tessera/checkpoint/saving/saver.h"
#include "tessera/observe/reporter.h"
#include "tessera/train/consistency_check.h"
#include "tessera/train/stop_reasons.h"

namespace tessera {

class StopCheck {
 public:
  /// `saver` is null if the run does not save.
  StopCheck(Session& session, const Rank& rank, const TrainOptions& options,
            std::chrono::steady_clock::time_point begun, Saver* saver, Reporter& reporter);

  /// Whether the check is due.
  bool due(std::int64_t iteration) const { return iteration >= next_; }
  /// Collective, at the same iteration on all ranks. `step_seconds` is the time per step; 0:
  /// unknown.
  void run(std::int64_t iteration, double step_seconds);
  /// Whether the run is to stop.
  bool stopped() const { return stop_ != 0; }
  /// The signal that stopped it; 0: none did.
  int signal() const { return StopReasons::signal(stop_); }
  ConsistencyCheck& ranks() { return ranks_; }

 private:
  Session& session_;
  Saver* saver_;
  Reporter& reporter_;
  bool sets_pace_;  ///< rank 0 determines when the next check is due
  ConsistencyCheck ranks_;
  StopReasons reasons_;
  std::int64_t next_ = 0;  ///< iteration
  double stop_ = 0;        ///< StopReasons, equal on all ranks
};

}  // namespace tessera
