// A whole training run: data, session, steps, evaluation, logs, checkpoints.
#pragma once

#include <optional>
#include <string>

#include "tessera/config/options.h"
#include "tessera/train/checkpointing.h"
#include "tessera/train/datasets.h"
#include "tessera/train/dump_step.h"
#include "tessera/train/metrics.h"

namespace tessera {

/// What a session of these (resolved) options looks like.
SessionOptions session_options(const Options& options, bool training);

class Trainer {
 public:
  /// `config` is the resolved configuration as YAML; checkpoints keep it. Options must be valid.
  Trainer(const Options& options, std::string config, const Rank& rank);

  void run();
  const Progress& progress() const { return progress_; }
  Session& session() { return session_; }

 private:
  void start();
  void load_checkpoint(const Checkpoint& checkpoint);
  /// One step, and what is logged of it.
  StepMetrics step();
  void check_finite(const StepResult& result) const;
  bool due(std::int64_t interval) const {
    return interval > 0 && progress_.iteration % interval == 0;
  }
  void evaluate(Split split);
  void save();

  Options options_;
  std::string config_;
  Datasets datasets_;
  Session session_;
  Progress progress_;
  std::int64_t saved_iteration_ = -1;
  std::optional<Loader> loader_;
  std::optional<StepDump> dump_;
  std::optional<MetricsFile> metrics_;
  ProgressDisplay display_;
};

}  // namespace tessera
