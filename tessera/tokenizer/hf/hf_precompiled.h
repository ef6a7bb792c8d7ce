// "Precompiled": SentencePiece's table of replacements, applied as Hugging Face does it: to each
// grapheme (what a reader takes for one character) of less than six bytes, and else to each code
// point, by the rule for the shortest prefix.
#pragma once

#include "tessera/tokenizer/hf/hf_node.h"
#include "tessera/tokenizer/hf/hf_pieces.h"
#include "tessera/tokenizer/sentencepiece/charsmap.h"

namespace tessera {

class HfPrecompiled {
 public:
  explicit HfPrecompiled(const HfNode& node);
  void normalize(HfText& text) const;

 private:
  void append(std::string_view grapheme, std::string& out) const;

  Charsmap charsmap_;
};

}  // namespace tessera
