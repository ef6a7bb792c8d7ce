// How a run gets its first weights.
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
  CarriedFiles carried;                ///< files that the run's checkpoints pass on
  std::int64_t loaded_iteration = -1;  ///< of the checkpoint in --save that the run goes on from
  bool data_moved = false;             ///< since that checkpoint: it has another name
};

/// Fills the session from the checkpoint, from a Hugging Face folder, or leaves it as the seed made
/// it. All ranks call it together.
RunStart load_start(Session& session, const Options& options, const Progress& progress,
                    std::optional<Checkpoint> checkpoint, Reporter& reporter);

/// InputError unless all ranks start from the same place with the same data: files under one name
/// may differ from machine to machine.
void check_same_start(Session& session, const Options& options, const Progress& progress,
                      const TrainingData& data);

}  // namespace tessera
