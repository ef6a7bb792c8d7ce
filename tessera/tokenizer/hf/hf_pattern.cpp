#include "tessera/tokenizer/hf/hf_pattern.h"

#include <algorithm>

namespace tessera {
namespace {

// A match goes to its neighbour before it, or with `forward` to the one after it; of two matches in
// a row only the nearer one does.
HfMatches merge(const HfMatches& matches, bool forward) {
  HfMatches pieces;
  bool after_match = false;
  const std::size_t count = matches.size();
  for (std::size_t k = 0; k < count; ++k) {
    const std::size_t i = forward ? count - 1 - k : k;
    const bool joins = matches[i].matched && !after_match && !pieces.empty();
    if (!joins)
      pieces.push_back({matches[i].end, true});
    else if (!forward)
      pieces.back().end = matches[i].end;
    after_match = matches[i].matched;
  }
  if (forward) std::reverse(pieces.begin(), pieces.end());
  return pieces;
}

HfMatches join_equal(const HfMatches& matches) {
  HfMatches pieces;
  for (std::size_t i = 0; i < matches.size(); ++i)
    if (i > 0 && matches[i].matched == matches[i - 1].matched)
      pieces.back().end = matches[i].end;
    else
      pieces.push_back({matches[i].end, true});
  return pieces;
}

}  // namespace

HfMatches find_literal(std::string_view text, std::string_view literal) {
  HfMatches matches;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t found = std::min(text.find(literal, at), text.size());
    if (found > at) matches.push_back({found, false});
    if (found == text.size()) break;
    at = found + literal.size();
    matches.push_back({at, true});
  }
  return matches;
}

HfMatches find_pieces(const Splitter& splitter, std::string_view text) {
  HfMatches pieces;
  for (std::size_t at = 0; at < text.size(); at = pieces.back().end)
    pieces.push_back(splitter.next(text, at));
  return pieces;
}

HfPattern::HfPattern(const HfNode& node) {
  if (const auto literal = node.find("String")) {
    node.allow_only({"String"});
    literal_ = literal->text();
    if (literal_.empty()) literal->refuse("an empty text cannot be looked for");
    return;
  }
  node.allow_only({"Regex"});
  const HfNode regex = node.at("Regex");
  splitter_ = regex.placed([&] { return make_splitter(regex.text()); });
}

HfMatches HfPattern::matches(std::string_view text) const {
  return splitter_ ? find_pieces(*splitter_, text) : find_literal(text, literal_);
}

SplitBehavior parse_split_behavior(const HfNode& node) {
  const std::string& name = node.text();
  if (name == "Removed") return SplitBehavior::removed;
  if (name == "Isolated") return SplitBehavior::isolated;
  if (name == "MergedWithPrevious") return SplitBehavior::merged_with_previous;
  if (name == "MergedWithNext") return SplitBehavior::merged_with_next;
  if (name == "Contiguous") return SplitBehavior::contiguous;
  node.refuse("the behavior '{:.100}' is not known", name);
}

HfMatches apply_behavior(const HfMatches& matches, SplitBehavior behavior) {
  HfMatches pieces = matches;
  switch (behavior) {
    case SplitBehavior::removed:
      for (Piece& piece : pieces) piece.matched = !piece.matched;
      return pieces;
    case SplitBehavior::isolated:
      for (Piece& piece : pieces) piece.matched = true;
      return pieces;
    case SplitBehavior::merged_with_previous: return merge(matches, false);
    case SplitBehavior::merged_with_next: return merge(matches, true);
    case SplitBehavior::contiguous: return join_equal(matches);
  }
  return pieces;
}

}  // namespace tessera
