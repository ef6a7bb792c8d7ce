// Checkpoints of a run, one folder each:
//
//   <folder>/latest_checkpointed_iteration.txt    the newest complete one
//   <folder>/iter_0000100/model.safetensors       weights, by global name
//                         optimizer.safetensors   moments and master weights: exp_avg.<name>, ...
//                         config.yaml             all options of the run
//                         state.json              counters
//
// A checkpoint is written under a temporary name, synced, and renamed: after a crash the old or the
// new one is there whole, never a part of one.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tessera/base/json.h"
#include "tessera/checkpoint/safetensors_reader.h"
#include "tessera/checkpoint/safetensors_writer.h"

namespace tessera {

struct CheckpointContents {
  std::int64_t iteration = 0;
  Json state;
  std::string config;
  std::vector<NamedView> model;
  std::vector<NamedView> optimizer;  ///< empty: no optimizer file
};

/// Makes the folder if need be. Replaces a checkpoint of the same iteration.
void save_checkpoint(const fs::path& folder, const CheckpointContents& contents);

/// Whether a run saved checkpoints into this folder.
bool holds_checkpoints(const fs::path& folder);

class Checkpoint {
 public:
  /// The newest checkpoint of a folder; nothing when the folder has none yet.
  static std::optional<Checkpoint> latest(const fs::path& folder);
  /// Opens one; InputError names the file that is missing or damaged.
  Checkpoint(const fs::path& folder, std::int64_t iteration);

  std::int64_t iteration() const { return iteration_; }
  const fs::path& path() const { return path_; }
  const Json& state() const { return state_; }
  /// A counter of the state; InputError when it is missing or not a number.
  std::int64_t counter(const std::string& name) const;
  double number(const std::string& name) const;
  const std::string& config() const { return config_; }
  const SafetensorsFile& model() const { return model_; }
  const std::optional<SafetensorsFile>& optimizer() const { return optimizer_; }

 private:
  std::int64_t iteration_;
  fs::path path_;
  Json state_;
  std::string config_;
  SafetensorsFile model_;
  std::optional<SafetensorsFile> optimizer_;
};

}  // namespace tessera
