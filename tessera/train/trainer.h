// A whole training run: data, session, steps, evaluation, logs, checkpoints.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "tessera/base/folder_lock.h"
#include "tessera/config/options.h"
#include "tessera/train/checkpointing.h"
#include "tessera/train/datasets.h"
#include "tessera/train/dump_step.h"
#include "tessera/train/metrics.h"
#include "tessera/train/profile.h"
#include "tessera/train/train_step.h"

namespace tessera {

/// What a session of these (resolved) options looks like.
SessionOptions session_options(const Options& options, bool training);

/// What a rank needs to use a model on batches of this shape, one at a time.
SessionOptions inference_options(const Options& options, const BatchShape& shape, const Rank& rank);

class Trainer {
 public:
  /// `config` is the resolved configuration as YAML; checkpoints keep it. Options must be valid.
  /// All ranks do the same; rank 0 also logs and writes files.
  Trainer(const Options& options, std::string config, const Rank& rank);

  void run();
  const Progress& progress() const { return progress_; }
  Session& session() { return session_; }

 private:
  void start();
  void load_checkpoint(const Checkpoint& checkpoint);
  /// Of the batches that this rank takes.
  LoaderShape loader_shape();
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
  void check_finite(const StepRecord& record, std::int64_t iteration) const;
  /// Tells the device the learning rates of the coming steps.
  void send_rates();
  bool due(std::int64_t interval) const {
    return interval > 0 && progress_.iteration % interval == 0;
  }
  void evaluate(Split split);
  void save();
  /// Ends the recording of --profile if it is time.
  void finish_profile(bool last);

  Options options_;
  std::string config_;
  bool writes_;  ///< logs and files: rank 0
  Datasets datasets_;
  Session session_;
  Progress progress_;
  std::optional<Steps> steps_;
  std::int64_t rates_left_ = 0;  ///< of those the device knows
  std::chrono::steady_clock::time_point reported_;
  std::optional<FolderLock> lock_;  ///< of --save
  std::int64_t saved_iteration_ = -1;
  std::optional<Loader> loader_;
  std::optional<StepDump> dump_;
  std::optional<MetricsFile> metrics_;
  std::optional<StepProfile> profile_;
  ProgressDisplay display_;
};

}  // namespace tessera
