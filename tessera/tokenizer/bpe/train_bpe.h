// Learns the merges of byte pair encoding: again and again, the most frequent pair of neighbours
// becomes a token. The result is that of Hugging Face's trainer, number for number.
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

/// Tokens start with `special`, then come the 256 bytes in the order of GPT-2's alphabet, then what
/// was merged, until there are `vocab_size` or nothing is left to merge. Of pairs that are equally
/// frequent the one with the lower numbers counts.
LearnedBpe learn_bpe(const PieceCounts& pieces, const std::vector<std::string>& special,
                     std::int64_t vocab_size);

}  // namespace tessera
