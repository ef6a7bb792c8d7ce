// Why a run should stop before its end: a signal, or time that is up.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "tessera/launch/rank.h"
#include "tessera/options/train_options.h"

namespace tessera {

class StopReasons {
 public:
  /// Of this rank. Time counts by the clock of rank 0.
  StopReasons(const Rank& rank, const TrainOptions& options,
              std::chrono::steady_clock::time_point begun);

  /// 0: none. The largest of all ranks' is the run's.
  double now() const;
  /// "SIGTERM", "time is up".
  static std::string text(double reason);
  /// The signal of a reason; 0: it is another.
  static int signal(double reason);

 private:
  using Clock = std::chrono::steady_clock;

  const SignalWatch* signals_;  ///< null: not watched
  std::optional<Clock::time_point> end_;
  std::optional<std::chrono::system_clock::time_point> job_end_;  ///< less what saving may take
};

}  // namespace tessera
