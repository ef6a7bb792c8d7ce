// Where a command's model comes from: a checkpoint of ours, a Hugging Face folder, or flags alone.
#pragma once

#include <optional>

#include "tessera/checkpoint/checkpoint.h"
#include "tessera/checkpoint/hf/hf_folder.h"
#include "tessera/config/parse.h"
#include "tessera/engine/session.h"

namespace tessera {

class ModelSource {
 public:
  /// Opens what --load or --load-hf name, puts its model (and, for a checkpoint, its tokenizer)
  /// into the options, then resolves and validates them. Flags that contradict it are refused.
  /// `ranks` is how many ranks a launcher started, if one did.
  explicit ModelSource(ParsedCommand& parsed, std::optional<int> ranks = std::nullopt);

  /// The one of --load.
  const std::optional<Checkpoint>& checkpoint() const { return checkpoint_; }
  /// Fills a session with the weights; leaves the initial ones when there is no source.
  void load(Session& session) const;

 private:
  std::optional<Checkpoint> checkpoint_;
  std::optional<HfFolder> folder_;
};

/// The rank that commands on one rank run as.
Rank only_rank(const TrainOptions& options);

}  // namespace tessera
