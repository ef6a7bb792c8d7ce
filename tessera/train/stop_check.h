// Whether a run is to stop, which all ranks must know alike, and whether all have written their
// part of a checkpoint: asked every so often between steps.
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
  /// `saver` is null when the run saves nothing.
  StopCheck(Session& session, const Rank& rank, const TrainOptions& options,
            std::chrono::steady_clock::time_point begun, Saver* saver, Reporter& reporter);

  /// Whether ranks ask each other now.
  bool due(std::int64_t iteration) const { return iteration >= next_; }
  /// All ranks together, at the same iteration. `step_seconds` is how long a step takes; 0:
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
  bool sets_pace_;  ///< rank 0 says when ranks ask each other again
  ConsistencyCheck ranks_;
  StopReasons reasons_;
  std::int64_t next_ = 0;  ///< iteration
  double stop_ = 0;        ///< StopReasons; all ranks know alike
};

}  // namespace tessera
