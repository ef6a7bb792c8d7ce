// Pre-tokenization: cuts a text into the pieces that are merged on their own.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

namespace tessera {

/// A piece ends at `end`. It is a match of the pattern, or what lies between two matches.
struct Piece {
  std::size_t end;
  bool matched;
};

class Splitter {
 public:
  virtual ~Splitter() = default;

  /// The piece that starts at `at` (less than text.size()), which is 0 or the end of the one before
  /// it. Pieces are never empty: a match of nothing is passed over. Bytes that are no UTF-8 are in
  /// no class: of the well-known patterns they are a part of punctuation, and other patterns never
  /// match them. InputError when a pattern takes too long.
  virtual Piece next(std::string_view text, std::size_t at) const = 0;
};

/// For a pattern of Oniguruma's or Rust's regex: written out by hand for the well-known ones (of
/// GPT-2, GPT-4 and Llama 3, Qwen, GPT-4o and Llama 4, Mistral), which are told by their exact
/// text, and PCRE2 for all others. InputError, with the place in the pattern, when it cannot be
/// read.
std::unique_ptr<Splitter> make_splitter(std::string_view pattern);

/// As make_splitter, but always PCRE2.
std::unique_ptr<Splitter> make_regex_splitter(std::string_view pattern);

/// The pattern of GPT-2, which is also that of Hugging Face's ByteLevel with use_regex.
extern const std::string_view kGpt2Pattern;
/// GPT-4's (cl100k), which Llama 3 has too.
extern const std::string_view kCl100kPattern;
/// GPT-4's with one digit at a time, which Qwen 2, 2.5 and 3 have.
extern const std::string_view kQwen2Pattern;
/// GPT-4o's.
extern const std::string_view kO200kPattern;
/// GPT-4o's with one digit at a time and without contractions: Mistral's (Tekken), and Megatron's
/// v2.
extern const std::string_view kTekkenPattern;

}  // namespace tessera
