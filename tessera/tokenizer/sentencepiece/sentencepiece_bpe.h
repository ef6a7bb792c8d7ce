// SentencePiece's merging: by the scores of the pieces that two neighbours form, over the whole
// text at once.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "tessera/tokenizer/sentencepiece/prefix_trie.h"
#include "tessera/tokenizer/sentencepiece/sentencepiece_model.h"

namespace tessera {

struct SentencePieceSegment {
  std::string_view text;
  std::int32_t id;
};

/// The pieces of a normalized text, in O(n log n). User-defined pieces (`frozen`) are taken out
/// first and never merged. A piece that is not to be used is taken apart again.
std::vector<SentencePieceSegment> merge_by_score(const SentencePieceModel& model,
                                                 const PrefixTrie& frozen, std::string_view text);

}  // namespace tessera
