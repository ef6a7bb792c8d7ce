// Splits by a well-known pattern (known_patterns.h). Every choice looks at a bounded number of
// characters beside the piece that it makes, so that any text takes linear time.
#pragma once

#include <array>
#include <cstdint>

#include "tessera/tokenizer/split/known_patterns.h"
#include "tessera/tokenizer/unicode/unicode.h"

namespace tessera {

class KnownSplitter : public Splitter {
 public:
  explicit KnownSplitter(const PatternTraits& traits);

  Piece next(std::string_view text, std::size_t at) const override;

 private:
  // A character, and the classes that it is in (bits of known_splitter.cpp).
  struct Character {
    std::size_t end;
    unsigned classes;
  };

  Character character(std::string_view text, std::size_t at) const;
  std::size_t run(std::string_view text, std::size_t at, unsigned classes) const;
  std::size_t word(std::string_view text, std::size_t at, const Character& first) const;
  std::size_t cased_word(std::string_view text, std::size_t at, const Character& first) const;
  std::size_t cased_letters(std::string_view text, std::size_t at) const;
  std::size_t number(std::string_view text, std::size_t at, const Character& first) const;
  std::size_t punctuation(std::string_view text, std::size_t at, const Character& first) const;
  std::size_t whitespace(std::string_view text, std::size_t at) const;

  PatternTraits traits_;
  const CodePointTable& classes_;
  std::array<std::uint8_t, 128> ascii_{};  // the first of them, which most texts consist of
};

}  // namespace tessera
