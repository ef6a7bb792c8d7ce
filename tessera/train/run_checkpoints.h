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
  /// `config` is the resolved configuration as YAML, which every checkpoint keeps.
  RunCheckpoints(Session& session, const Options& options, std::string config, RunStart start,
                 Reporter& reporter);

  /// Of where the run is. All ranks together, as all below.
  void save(Progress& progress, const TrainingData& data, ConsistencyCheck& ranks);
  /// Ends the run with a checkpoint of where it is; throws when there can be none.
  void save_last(Progress& progress, const TrainingData& data, ConsistencyCheck& ranks);
  /// The checkpoint that the run started from is to be written again.
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
