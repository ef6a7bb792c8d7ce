// What SentencePiece does to a text before it cuts it into pieces: replacements of characters, and
// spaces as U+2581.
#pragma once

#include <string>
#include <string_view>

#include "tessera/tokenizer/sentencepiece/charsmap.h"
#include "tessera/tokenizer/sentencepiece/prefix_trie.h"
#include "tessera/tokenizer/sentencepiece/sentencepiece_model.h"

namespace tessera {

/// U+2581, which stands for a space in pieces.
inline constexpr std::string_view kSpaceSymbol = "\xE2\x96\x81";

class SentencePieceNormalizer {
 public:
  /// `kept` are the user-defined pieces, which go through unchanged. InputError names `what`.
  SentencePieceNormalizer(const SentencePieceModel::Normalizer& spec, bool whitespace_is_suffix,
                          PrefixTrie kept, const std::string& what);

  /// A byte that is no UTF-8 becomes U+FFFD.
  std::string normalize(std::string_view text) const;

 private:
  struct Step {
    std::string_view text;  ///< what replaces the beginning
    std::size_t length;     ///< of what is replaced
  };
  Step step(std::string_view text) const;
  std::string_view space() const { return escape_ ? kSpaceSymbol : std::string_view(" "); }

  Charsmap charsmap_;
  PrefixTrie kept_;
  bool dummy_prefix_, remove_extra_, escape_, suffix_;
};

}  // namespace tessera
