// Reasons to stop a run early: a signal, or a time limit.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "tessera/launch/rank.h"
#include "tessera/options/train_options.h"

namespace tessera {

class StopReasons {
 public:
  /// The reasons on this rank. Time limits use the clock of rank 0.
  StopReasons(const Rank& rank, const TrainOptions& options,
              std::chrono::steady_clock::time_point begun);

  /// The current reason; 0: none. The run's reason is the largest over all ranks.
  double now() const;
  /// "SIGTERM", "time is up".
  static std::string text(double reason);
  /// The signal of a reason; 0: it is not a signal.
  static int signal(double reason);

 private:
  using Clock = std::chrono::steady_clock;

  const SignalWatch* signals_;  ///< null: not watched
  std::optional<Clock::time_point> end_;
  /// Minus the time that saving may take
  std::optional<std::chrono::system_clock::time_point> job_end_;
};

}  // namespace tessera
