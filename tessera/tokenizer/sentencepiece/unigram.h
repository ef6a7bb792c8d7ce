// The unigram model: of all ways to cut a text into pieces, the one whose scores add up to most.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/tokenizer/sentencepiece/prefix_trie.h"

namespace tessera {

class Unigram {
 public:
  struct Segment {
    std::size_t end;
    std::int32_t id;  ///< kUnknown for a character that no piece covers
  };
  static constexpr std::int32_t kUnknown = -1;

  /// The originals add in different precisions, which decides what is a tie: Hugging Face in
  /// double, SentencePiece in float, with a new start now and then.
  enum class Sums { doubles, floats };

  /// `scores` by the numbers of the pieces; `unknown_score` is that of a character without a piece.
  Unigram(std::vector<std::pair<std::string, std::int32_t>> pieces, std::vector<double> scores,
          double unknown_score, Sums sums);

  /// The segments of a text, from left to right. Time and memory are linear in its length.
  std::vector<Segment> segment(std::string_view text) const;

 private:
  PrefixTrie trie_;
  std::vector<double> scores_;
  double unknown_score_;
  Sums sums_;
};

/// The bytes of a character by its first one, as both originals count them.
inline std::size_t character_bytes(unsigned char first) {
  return first < 0xC0 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
}

}  // namespace tessera
