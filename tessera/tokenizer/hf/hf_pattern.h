// The patterns of Split and Replace, and the behaviours of Split.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/tokenizer/hf/hf_node.h"
#include "tessera/tokenizer/split/splitter.h"

namespace tessera {

/// A span of a text that ends at `end`, where the next one starts.
using HfMatches = std::vector<Piece>;

/// The occurrences of a non-empty literal in a text, and the spans between them.
HfMatches find_literal(std::string_view text, std::string_view literal);

/// All pieces of a text.
HfMatches find_pieces(const Splitter& splitter, std::string_view text);

/// {"String": "..."} or {"Regex": "..."}.
class HfPattern {
 public:
  explicit HfPattern(const HfNode& node);

  /// The matches and the spans between them, over the whole text. None is empty.
  HfMatches matches(std::string_view text) const;

 private:
  std::string literal_;
  std::shared_ptr<const Splitter> splitter_;  // null: the literal
};

enum class SplitBehavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };
SplitBehavior parse_split_behavior(const HfNode& node);

/// From matches to pieces: those that stay have `matched` set.
HfMatches apply_behavior(const HfMatches& matches, SplitBehavior behavior);

}  // namespace tessera
