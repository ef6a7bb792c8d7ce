// A whole training run: data, session, steps, evaluation, logs, checkpoints.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>

#include "tessera/base/folder_lock.h"
#include "tessera/checkpoint/carried_files.h"
#include "tessera/checkpoint/saving/checkpointing.h"
#include "tessera/checkpoint/saving/saver.h"
#include "tessera/engine/train_step.h"
#include "tessera/observe/profile.h"
#include "tessera/observe/reporter.h"
#include "tessera/options/options.h"
#include "tessera/train/consistency_check.h"
#include "tessera/train/data_waits.h"
#include "tessera/train/datasets.h"
#include "tessera/train/dump_step.h"
#include "tessera/train/stop_reasons.h"

namespace tessera {

/// A mean over parts that count differently.
struct WeightedMean {
  double sum = 0;
  double weights = 0;
  void add(double value, double weight) {
    sum += value * weight;
    weights += weight;
  }
  double value() const { return sum / std::max(weights, 1.0); }
};

class Trainer {
 public:
  /// `config` is the resolved configuration as YAML; checkpoints keep it. Options must be valid.
  /// All ranks do the same; rank 0 also logs and writes files.
  Trainer(const Options& options, std::string config, const Rank& rank);

  /// Returns the signal that stopped the run before its end, after it was saved; 0: none did.
  int run();
  const Progress& progress() const { return progress_; }
  Session& session() { return session_; }

 private:
  void start();
  void load_checkpoint(Checkpoint& checkpoint);
  void prepare_saving();
  void evaluate_last();
  int evaluate_at_end();
  void train_steps();
  /// Whether ranks look now at what they must know alike.
  bool consistency_check_due() const;
  /// Cross-rank consistency check: whether to stop, and whether all have written their part of a
  /// checkpoint.
  void check_consistency();
  /// Of the batches that this rank takes.
  LoaderShape loader_shape();
  /// Where the run's samples come from, from here on.
  void open_loader();
  /// Warns when the samples consumed so far are not those that the order has at their positions.
  /// InputError when the data has another name, too.
  void check_order() const;
  /// InputError unless all ranks start from the same place with the same data: files under one name
  /// may differ from machine to machine.
  void check_same_start();
  /// Puts one step on the device; what became of it is reported later.
  void step();
  void first_step_to_dump();
  /// Whether --profile records the next step, here or elsewhere.
  bool some_rank_records() const;
  /// Whether the host must know now how the last steps went.
  bool report_due() const;
  /// Collects what the steps since the last report did: log, metrics, schedule.
  void report();
  void check_finite(const StepRecord& record, std::int64_t iteration);
  /// Tells the device the learning rates of the coming steps.
  void send_rates();
  bool due(std::int64_t interval) const {
    return interval > 0 && progress_.iteration % interval == 0;
  }
  /// False: the run is to stop, and the evaluation was broken off.
  bool evaluate(Split split);
  /// Of one dataset; nothing: the run is to stop.
  std::optional<WeightedMean> evaluate_set(Split split,
                                           const std::shared_ptr<const Dataset>& dataset);
  /// Reports a loss; of which set, where there are several and this is not their mean.
  void report_loss(Split split, const std::string& set, double loss);
  void save();
  /// Ends the run with a checkpoint of where it is; throws when there can be none.
  void save_last();
  /// Ends the recording of --profile if it is time.
  void finish_profile(bool last);

  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  std::unique_ptr<FolderLock> lock_;      ///< of --save
  std::optional<Checkpoint> checkpoint_;  ///< that the run starts from, until it is read
  Progress progress_;
  Options options_;
  std::string config_;
  bool writes_;  ///< logs and files: rank 0
  Datasets datasets_;
  Session session_;
  std::optional<Steps> steps_;
  std::int64_t rates_left_ = 0;  ///< of those the device knows
  std::chrono::steady_clock::time_point reported_;
  std::optional<Saver> saver_;
  std::int64_t loaded_iteration_ = -1;  ///< of the checkpoint in --save that the run goes on from
  CarriedFiles carried_;                ///< files that checkpoints pass on
  std::optional<ConsistencyCheck> consistency_check_;
  std::optional<StopReasons> stop_reasons_;
  std::int64_t next_consistency_check_ = 0;  ///< iteration
  double step_seconds_ = 0;
  double stop_ = 0;  ///< why the run is to stop (StopReasons); all ranks know alike
  std::shared_ptr<const SampleOrder> order_;
  std::optional<Loader> loader_;
  bool data_moved_ = false;   ///< since the checkpoint that the run goes on from
  double reported_wait_ = 0;  ///< of the loader, in reports so far
  std::optional<DataWaits> data_waits_;
  std::optional<StepDump> dump_;
  std::optional<StepProfile> profile_;
  Reporter reporter_;
};

}  // namespace tessera
