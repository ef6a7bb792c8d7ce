// Computes metrics from the records of finished steps.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/kernels/step_state.h"
#include "tessera/observe/reporter.h"
#include "tessera/options/options.h"
#include "tessera/train/data_waits.h"
#include "tessera/train/layer_report.h"

namespace tessera {

/// Time is measured from one report to the next and divided evenly among the steps in between.
class StepReports {
 public:
  StepReports(Session& session, const Options& options, Reporter& reporter, std::int64_t iteration);

  /// Excludes the time until now, and the batches of an evaluation, from the reports.
  void restart_clock();
  /// Whether a live display is due for an update.
  bool live_line_due() const;

  /// Begins a report of the `count` steps up to `iteration`. `waited` is the total time that the
  /// run has waited for data, in seconds. Collective.
  void begin(std::int64_t count, std::int64_t iteration, double waited);
  /// Adds one step on `batch` samples, after which the run had consumed that many.
  void step(const StepRecord& record, std::int64_t iteration, std::int64_t batch,
            std::int64_t consumed_samples);
  void end();

  /// The time per step; 0: there was none.
  double step_seconds() const { return seconds_; }

 private:
  using Clock = std::chrono::steady_clock;

  const Options& options_;
  Session& session_;
  Reporter& reporter_;
  DataWaits data_waits_;
  std::vector<std::string> extra_losses_;  ///< names, in the order of the records
  std::vector<double> loss_layers_;        ///< of which each is reported as the mean
  std::vector<std::string> statistics_;    ///< names of the values that follow
  std::optional<LayerReport> layer_report_;
  double flops_per_token_;  ///< of this rank
  Clock::time_point reported_ = Clock::now();
  double waited_ = 0;  ///< in reports so far
  // Of the report under way.
  double seconds_ = 0;
  double wait_ = 0;
  std::int64_t last_ = 0;             ///< its last step
  bool logs_ = false;                 ///< that is logged
  std::vector<LayerMetrics> layers_;  ///< of that step
  double params_norm_ = 0;
  std::int64_t zeros_ = 0;  ///< among its gradients
  double context_imbalance_ = 1;
  DataWaits::Longest longest_;
};

}  // namespace tessera
