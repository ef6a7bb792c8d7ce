// The checkpoints that a run writes.
#pragma once

#include <string>

#include "tessera/checkpoint/saving/saver.h"
#include "tessera/observe/reporter.h"
#include "tessera/options/options.h"
#include "tessera/train/consistency_check.h"
#include "tessera/train/run_start.h"
#include "tessera/train/training_data.h"

namespace tessera {

class RunCheckpoints {
 public:
  /// `config` is the resolved configuration as YAML, which every checkpoint stores.
  RunCheckpoints(Session& session, const Options& options, std::string config, RunStart start,
                 Reporter& reporter);

  /// Saves the current state. Collective, like all functions below.
  void save(Progress& progress, const TrainingData& data, ConsistencyCheck& ranks);
  /// Saves a final checkpoint; throws if that is not possible.
  void save_last(Progress& progress, const TrainingData& data, ConsistencyCheck& ranks);
  /// Allows the checkpoint that the run started from to be overwritten.
  void replace_loaded() { start_.loaded_iteration = -1; }
  Saver& saver() { return saver_; }

 private:
  Session& session_;
  const Options& options_;
  std::string config_;
  RunStart start_;
  Reporter& reporter_;
  Saver saver_;
};

}  // namespace tessera
