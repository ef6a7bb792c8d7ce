#include "tessera/tokenizer/split/known_splitter.h"

namespace tessera {
namespace {

// Classes of characters. What is in none of the first four is the end of the text.
constexpr unsigned kLetter = 1;    // \p{L}
constexpr unsigned kNumber = 2;    // \p{N}
constexpr unsigned kSpace = 4;     // \s
constexpr unsigned kOther = 8;     // [^\s\p{L}\p{N}], and bytes that are no UTF-8
constexpr unsigned kNewline = 16;  // [\r\n]
constexpr unsigned kUpper = 32;    // [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]
constexpr unsigned kLower = 64;    // [\p{Ll}\p{Lm}\p{Lo}\p{M}]

std::uint8_t classes_of(char32_t c, Category category) {
  unsigned classes = kOther;
  if (is_letter(category)) classes = kLetter;
  if (is_number(category)) classes = kNumber;
  const bool separates = is_between(category, Category::Zs, Category::Zp);
  if (separates || (c >= 9 && c <= 13) || c == 0x85) classes = kSpace;
  if (c == '\r' || c == '\n') classes |= kNewline;
  const bool either = category == Category::Lm || category == Category::Lo || is_mark(category);
  if (either || category == Category::Lu || category == Category::Lt) classes |= kUpper;
  if (either || category == Category::Ll) classes |= kLower;
  return static_cast<std::uint8_t>(classes);
}

const CodePointTable& class_table() {
  static const CodePointTable table(classes_of);
  return table;
}

// The length of 's 't 'm 'd 're 've 'll at `at`, or 0. In any case also of the long s (U+017F), the
// only other letter that is one of these when case does not count.
std::size_t contraction(std::string_view text, std::size_t at, bool any_case) {
  if (at >= text.size() || text[at] != '\'') return 0;
  const auto letter = [&](std::size_t i) {
    if (at + i >= text.size()) return '\0';
    const char c = text[at + i];
    return any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  };
  const char first = letter(1), second = letter(2);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
  if ((first == 'r' || first == 'v') && second == 'e') return 3;
  if (first == 'l' && second == 'l') return 3;
  return any_case && first == '\xC5' && second == '\xBF' ? 3 : 0;
}

}  // namespace

KnownSplitter::KnownSplitter(const PatternTraits& traits)
    : traits_(traits), classes_(class_table()) {
  for (std::size_t i = 0; i < ascii_.size(); ++i) ascii_[i] = classes_[static_cast<char32_t>(i)];
}

KnownSplitter::Character KnownSplitter::character(std::string_view text, std::size_t at) const {
  if (at >= text.size()) return {at, 0};
  const auto byte = static_cast<unsigned char>(text[at]);
  if (byte < 0x80) return {at + 1, ascii_[byte]};
  const CodePoint c = next_code_point(text, at);
  return {at + c.length, c.value == kInvalidCodePoint ? kOther : classes_[c.value]};
}

// The end of the characters from `at` on that are in one of the classes.
std::size_t KnownSplitter::run(std::string_view text, std::size_t at, unsigned classes) const {
  for (Character c = character(text, at); (c.classes & classes) != 0; c = character(text, at))
    at = c.end;
  return at;
}

// ` ?\p{L}+` or `[^\r\n\p{L}\p{N}]?\p{L}+`; `at` when there is none.
std::size_t KnownSplitter::word(std::string_view text, std::size_t at,
                                const Character& first) const {
  if ((first.classes & kLetter) != 0) return run(text, first.end, kLetter);
  const bool may_precede = traits_.words == PatternTraits::Words::after_space
                               ? text[at] == ' '
                               : (first.classes & (kNewline | kNumber)) == 0;
  if (!may_precede) return at;
  const std::size_t end = run(text, first.end, kLetter);
  return end > first.end ? end : at;
}

// `[Upper]*[Lower]+`, or else `[Upper]+`; `at` when there is none. The first takes back what
// [Upper]* took too much: up to the last character that is in both.
std::size_t KnownSplitter::cased_letters(std::string_view text, std::size_t at) const {
  std::size_t end = at, last_both = at;
  Character c = character(text, at);
  for (; (c.classes & kUpper) != 0; c = character(text, end)) {
    end = c.end;
    if ((c.classes & kLower) != 0) last_both = end;
  }
  if ((c.classes & kLower) != 0) return run(text, end, kLower);
  return last_both > at ? last_both : end;
}

// A character that is no letter may come before the letters. A mark may be that one or the first of
// them, which is the same piece.
std::size_t KnownSplitter::cased_word(std::string_view text, std::size_t at,
                                      const Character& first) const {
  std::size_t end = at;
  if ((first.classes & (kUpper | kLower)) != 0) {
    end = cased_letters(text, at);
  } else if ((first.classes & (kNewline | kNumber)) == 0) {
    end = cased_letters(text, first.end);
    if (end == first.end) return at;
  }
  if (end > at && traits_.contractions == PatternTraits::Contractions::after_words)
    end += contraction(text, end, true);
  return end;
}

std::size_t KnownSplitter::number(std::string_view text, std::size_t at,
                                  const Character& first) const {
  if (traits_.digits == 0) {
    const std::size_t begin = text[at] == ' ' ? first.end : at;
    const std::size_t end = run(text, begin, kNumber);
    return end > begin ? end : at;
  }
  std::size_t end = at;
  for (std::size_t i = 0; i < traits_.digits; ++i) {
    const Character c = character(text, end);
    if ((c.classes & kNumber) == 0) break;
    end = c.end;
  }
  return end;
}

// ` ?[^\s\p{L}\p{N}]+`, and what may follow it.
std::size_t KnownSplitter::punctuation(std::string_view text, std::size_t at,
                                       const Character& first) const {
  const std::size_t begin = text[at] == ' ' ? first.end : at;
  std::size_t end = run(text, begin, kOther);
  if (end == begin) return at;
  while (end < text.size() && traits_.after_punctuation.find(text[end]) != std::string_view::npos)
    ++end;
  return end;
}

// `\s*[\r\n]+|\s+(?!\S)|\s+`: up to the last line's end; else all but the last character, which may
// belong to the word after it; all of it at the text's end.
std::size_t KnownSplitter::whitespace(std::string_view text, std::size_t at) const {
  std::size_t end = at, last = at, after_newline = at;
  for (Character c = character(text, at); (c.classes & kSpace) != 0; c = character(text, end)) {
    last = end;
    end = c.end;
    if ((c.classes & kNewline) != 0) after_newline = end;
  }
  if (traits_.whole_tail && end == text.size()) return end;
  if (traits_.lines && after_newline > at) return after_newline;
  return end < text.size() && last > at ? last : end;
}

Piece KnownSplitter::next(std::string_view text, std::size_t at) const {
  using enum PatternTraits::Contractions;
  if (traits_.contractions == lower_case || traits_.contractions == any_case)
    if (const std::size_t length = contraction(text, at, traits_.contractions == any_case))
      return {at + length, true};
  const Character first = character(text, at);
  std::size_t end = traits_.words == PatternTraits::Words::by_letter_case
                        ? cased_word(text, at, first)
                        : word(text, at, first);
  if (end == at) end = number(text, at, first);
  if (end == at) end = punctuation(text, at, first);
  if (end == at) end = whitespace(text, at);
  return {end, true};
}

}  // namespace tessera
