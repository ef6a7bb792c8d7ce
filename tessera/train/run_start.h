// The initial weights of a run.
#pragma once

#include <optional>

#include "tessera/checkpoint/carried_files.h"
#include "tessera/checkpoint/checkpoint.h"
#include "tessera/checkpoint/saving/checkpointing.h"
#include "tessera/observe/reporter.h"
#include "tessera/options/options.h"
#include "tessera/train/training_data.h"

namespace tessera {

struct RunStart {
  CarriedFiles carried;                ///< files that the run's checkpoints include
  std::int64_t loaded_iteration = -1;  ///< of the checkpoint in --save that the run resumes from
  bool data_moved = false;             ///< the data has another path than in that checkpoint
};

/// Loads the session from the checkpoint or from a Hugging Face folder, or leaves it as initialised
/// from the seed. All ranks call it together.
RunStart load_start(Session& session, const Options& options, const Progress& progress,
                    std::optional<Checkpoint> checkpoint, Reporter& reporter);

/// InputError unless all ranks start from the same state with the same data: files of the same name
/// may differ between machines.
void check_same_start(Session& session, const Options& options, const Progress& progress,
                      const TrainingData& data);

}  // namespace tessera
