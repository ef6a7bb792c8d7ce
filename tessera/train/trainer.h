// A whole training run: data, session, steps, evaluation, logs, checkpoints. Each part is a class
// of its own; the trainer calls them in the right order.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "tessera/base/folder_lock.h"
#include "tessera/engine/train_step.h"
#include "tessera/observe/reporter.h"
#include "tessera/options/options.h"
#include "tessera/spec/batch_schedule.h"
#include "tessera/train/dump_step.h"
#include "tessera/train/evaluator.h"
#include "tessera/train/learning_rates.h"
#include "tessera/train/run_checkpoints.h"
#include "tessera/train/run_profile.h"
#include "tessera/train/step_reports.h"
#include "tessera/train/step_timers.h"
#include "tessera/train/stop_check.h"
#include "tessera/train/training_data.h"

namespace tessera {

class Trainer {
 public:
  /// `config` is the resolved configuration as YAML, which checkpoints store. Options must be
  /// valid. All ranks do the same; rank 0 also logs and writes files.
  Trainer(const Options& options, std::string config, const Rank& rank);
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// Reports metrics to this sink too, on rank 0.
  void report_to(std::unique_ptr<MetricSink> sink) { reporter_.add(std::move(sink)); }
  /// Returns the signal that stopped the run early, after saving; 0: none.
  int run();
  const Progress& progress() const { return progress_; }
  Session& session() { return session_; }

 private:
  bool due(std::int64_t interval) const {
    return interval > 0 && progress_.iteration % interval == 0;
  }
  bool stopped() const { return stop_check_ && stop_check_->stopped(); }
  /// The signal that stopped the run; 0: none.
  int signal() const { return stop_check_ ? stop_check_->signal() : 0; }
  /// Checks on all ranks whether the run is to stop.
  void check_stop();
  void start_dump(const std::string& folder);
  void train_steps();
  /// Launches one step on the device; its result is reported later.
  void step();
  /// Changes the batch size where the schedule does.
  void follow_batch_schedule();
  void first_step_to_dump();
  /// Whether the host needs the results of the last steps now.
  bool report_due() const;
  /// Collects the results of the steps since the last report: metrics, schedule.
  void report();
  void count_step(const StepRecord& record);
  void check_finite(const StepRecord& record, std::int64_t iteration);
  /// False if the run is to stop and the evaluation was interrupted.
  bool evaluate(Split split);
  void evaluate_last();
  int evaluate_at_end();
  void save_last();

  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  std::unique_ptr<FolderLock> lock_;      ///< of --save
  std::optional<Checkpoint> checkpoint_;  ///< that the run starts from, until it is read
  Progress progress_;
  Options options_;
  BatchSchedule batch_sizes_;
  std::int64_t batch_size_;  ///< of the next step
  Reporter reporter_;
  TrainingData data_;
  Session session_;
  LearningRates rates_;
  Evaluator evaluator_;
  std::optional<RunProfile> profile_;
  std::optional<StepDump> dump_;               ///< until the first step is written
  std::optional<RunCheckpoints> checkpoints_;  ///< with --save
  std::optional<StopCheck> stop_check_;        ///< of a run that may stop before its end
  std::optional<StepReports> reports_;
  StepTimers timers_{session_, options_.train, reporter_};
  std::optional<Steps> steps_;
};

}  // namespace tessera
