// BertNormalizer, and the steps that it shares with other normalizers.
#pragma once

#include "tessera/tokenizer/hf/hf_node.h"
#include "tessera/tokenizer/hf/hf_pieces.h"
#include "tessera/tokenizer/unicode/unicode.h"

namespace tessera {

/// Calls visit(code point) for each character.
template <class Visit>
void each_character(std::string_view text, const Visit& visit) {
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint c = decode_utf8(text, at);
    visit(c.value);
    at += c.length;
  }
}

void remove_characters(HfText& text, bool (*removes)(char32_t));
void lowercase(HfText& text);

class BertNormalizer {
 public:
  explicit BertNormalizer(const HfNode& node);
  void normalize(HfText& text) const;

 private:
  bool clean_text_, handle_chinese_, strip_accents_, lowercase_;
};

}  // namespace tessera
