// Trains byte pair encoding: the most frequent neighbouring pair repeatedly becomes a token. The
// result equals that of Hugging Face's trainer exactly.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tessera {

/// How often each piece of text occurs.
using PieceCounts = std::unordered_map<std::string, std::int64_t>;

struct LearnedBpe {
  std::vector<std::string> tokens;                            ///< bytes, by number
  std::vector<std::pair<std::int32_t, std::int32_t>> merges;  ///< the first was the most frequent
};

/// Tokens are `special`, then the 256 bytes in the order of GPT-2's alphabet, then merges, until
/// there are `vocab_size` tokens or nothing is left to merge. Among equally frequent pairs the one
/// with the lower numbers is merged first.
LearnedBpe learn_bpe(const PieceCounts& pieces, const std::vector<std::string>& special,
                     std::int64_t vocab_size);

}  // namespace tessera
