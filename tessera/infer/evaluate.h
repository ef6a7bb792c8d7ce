// Losses of a model: over a dataset, or of given token sequences one by one.
#pragma once

#include <string>
#include <vector>

#include "tessera/base/files.h"
#include "tessera/engine/session.h"
#include "tessera/options/options.h"

namespace tessera {

struct EvaluationResult {
  double loss = 0;  ///< mean over tokens that count
  double tokens = 0;
  double perplexity() const;
};

/// A dataset split of the options; `iterations` global batches.
EvaluationResult evaluate_dataset(Session& session, const Rank& rank, const Options& options,
                                  std::int64_t iterations);

/// {"tokens": [1, 2, 3]}, one a line. InputError names file and line.
std::vector<std::vector<std::int32_t>> read_token_file(const fs::path& path, std::int64_t vocab);

/// For each sequence one JSON line: {"tokens": n, "loss": mean, "token_logprobs": [of token 1, 2,
/// ...]}. The session's shape must hold the longest sequence less one.
std::string evaluate_sequences(Session& session,
                               const std::vector<std::vector<std::int32_t>>& sequences);

}  // namespace tessera
