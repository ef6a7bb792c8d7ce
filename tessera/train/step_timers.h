// Times of the parts of a step on all ranks, in Megatron's format (--timing-log-level 1).
#pragma once

#include <string>
#include <vector>

#include "tessera/engine/train_step.h"
#include "tessera/observe/reporter.h"
#include "tessera/options/options.h"

namespace tessera {

/// Waits for the device after each part, so steps take longer, and are never CUDA graphs.
class StepTimers {
 public:
  StepTimers(Session& session, const TrainOptions& options, Reporter& reporter)
      : session_(session), options_(options), reporter_(reporter) {}

  bool on() const { return options_.timing_log_level > 0; }
  /// A whole step, measured.
  void submit(Steps& steps, const NextBatch& next_batch);
  /// Logs the times since the last report. Collective.
  void report();

 private:
  Session& session_;
  const TrainOptions& options_;
  Reporter& reporter_;
  double gradients_ = 0, update_ = 0;  ///< seconds since the last report
  int steps_ = 0;                      ///< since then
};

/// The lines of the log: `times` are in seconds, by rank and part.
std::string timing_text(TimingOption option, const std::vector<std::vector<double>>& times);

}  // namespace tessera
