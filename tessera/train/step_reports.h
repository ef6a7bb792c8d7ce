// Makes metrics of the records of finished steps.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "tessera/kernels/step_state.h"
#include "tessera/observe/reporter.h"
#include "tessera/options/options.h"
#include "tessera/train/data_waits.h"

namespace tessera {

/// Time counts from one report to the next, and is shared evenly by the steps in between.
class StepReports {
 public:
  StepReports(Session& session, const Options& options, Reporter& reporter, std::int64_t iteration);

  /// What took time until now is no part of a step.
  void restart_clock() { reported_ = Clock::now(); }
  /// Whether somebody watches who has seen nothing new for a while.
  bool live_line_due() const;

  /// A report of the `count` steps up to `iteration` begins. `waited` are all seconds in which the
  /// run waited for data. All ranks together.
  void begin(std::int64_t count, std::int64_t iteration, double waited);
  /// One of them, after which the run had consumed so many samples.
  void step(const StepRecord& record, std::int64_t iteration, std::int64_t consumed_samples);
  void end();

  /// How long a step took; 0: there was none.
  double step_seconds() const { return seconds_; }

 private:
  using Clock = std::chrono::steady_clock;

  const Options& options_;
  Reporter& reporter_;
  DataWaits data_waits_;
  std::vector<std::string> extra_losses_;  ///< names, in the order of the records
  double tokens_;                          ///< of a step
  double flops_per_token_;                 ///< of this rank
  Clock::time_point reported_ = Clock::now();
  double waited_ = 0;  ///< in reports so far
  // Of the report under way.
  double seconds_ = 0;
  double wait_ = 0;
  bool logs_ = false;  ///< its last step is logged
  DataWaits::Longest longest_;
};

}  // namespace tessera
