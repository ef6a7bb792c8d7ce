// The patterns of well-known tokenizers, written out by hand: several times as fast as a regular
// expression, and never slow on any text.
//
// All of them try, in this order, where a piece starts: a contraction ('s, 'll), a word, a number,
// punctuation, and whitespace. What differs is in PatternTraits.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "tessera/options/tokenizer_options.h"
#include "tessera/tokenizer/split/splitter.h"

namespace tessera {

struct PatternTraits {
  enum class Contractions { none, lower_case, any_case, after_words };
  enum class Words {
    after_space,    ///< GPT-2's ` ?\p{L}+`
    after_any,      ///< GPT-4's `[^\r\n\p{L}\p{N}]?\p{L}+`
    by_letter_case  ///< GPT-4o's, which end where lower case turns to upper case
  };

  Contractions contractions = Contractions::none;
  Words words = Words::after_any;
  std::size_t digits = 3;              ///< most of a number; 0: any, and a space before it
  std::string_view after_punctuation;  ///< what is a part of the punctuation before it
  bool lines = true;                   ///< whitespace up to a line's end is a piece: `\s*[\r\n]+`
  bool whole_tail = false;             ///< whitespace at the text's end is one piece: `\s++$`
};

/// Nothing when the pattern is not one of these.
std::unique_ptr<Splitter> make_known_splitter(std::string_view pattern);

/// tiktoken's forms, whose texts mean other things to Hugging Face's tokenizers ({1,3}+ repeats).
std::unique_ptr<Splitter> make_tiktoken_splitter(TiktokenPattern pattern);

}  // namespace tessera
