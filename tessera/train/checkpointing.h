// A session's whole state to and from a checkpoint.
#pragma once

#include <string>

#include "tessera/checkpoint/checkpoint.h"
#include "tessera/train/session.h"

namespace tessera {

/// Where a run stands.
struct Progress {
  std::int64_t iteration = 0;
  std::int64_t consumed_samples = 0;
  std::int64_t schedule_samples = 0;  ///< of the steps that were not skipped
};

/// All ranks call it together, and rank 0 writes. `config` is the run's configuration as YAML.
void save_session(const fs::path& folder, Session& session, const Progress& progress,
                  const std::string& config, bool with_optimizer);

/// The weights, checked for names and shapes.
void load_weights(Session& session, const Checkpoint& checkpoint);
/// The optimizer's state and count; InputError when the checkpoint was saved without it.
void load_optimizer(Session& session, const Checkpoint& checkpoint);
Progress progress_of(const Checkpoint& checkpoint);

}  // namespace tessera
