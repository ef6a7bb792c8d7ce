// Unicode: UTF-8 in and out, and the classes of code points that patterns ask for.
//
// Classes are those of the programs whose tokens ours equal (Hugging Face's tokenizers and
// tiktoken): Unicode grows, and each carries the version it was built with.
// tools/make_unicode_tables.py asks them about every code point.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

/// What a decoder gives for bytes that are no UTF-8: in no class, no code point.
inline constexpr char32_t kInvalidCodePoint = 0xFFFFFFFF;
inline constexpr char32_t kReplacementCharacter = 0xFFFD;

struct CodePoint {
  char32_t value;
  std::size_t length;  ///< in bytes, at least 1
};

/// The code point at `at`, which must be less than text.size(). Bytes that are no UTF-8 (overlong
/// forms, surrogates, beyond U+10FFFF, cut off) give kInvalidCodePoint and the length of the
/// longest beginning of a character that they are, or 1: what Python's and Rust's decoders replace
/// by one U+FFFD.
CodePoint decode_utf8(std::string_view text, std::size_t at);

/// The same, fast for what most texts are made of.
inline CodePoint next_code_point(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) -> char32_t {
    return static_cast<unsigned char>(text[at + i]);
  };
  const auto follows = [&](std::size_t i) { return (byte(i) & 0xC0) == 0x80; };
  const char32_t first = byte(0);
  if (first < 0x80) return {first, 1};
  if (first >= 0xC2 && first < 0xE0 && text.size() - at >= 2 && follows(1))
    return {(first & 0x1F) << 6 | (byte(1) & 0x3F), 2};
  // 0xE0 and 0xED have longer rules.
  if (first > 0xE0 && first < 0xF0 && first != 0xED && text.size() - at >= 3 && follows(1) &&
      follows(2))
    return {(first & 0xF) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F), 3};
  return decode_utf8(text, at);
}

/// U+FFFD for what is no code point.
void append_utf8(std::string& text, char32_t value);

bool is_valid_utf8(std::string_view text);
/// Invalid bytes become U+FFFD, one for each kInvalidCodePoint.
std::string to_valid_utf8(std::string_view text);

/// General categories, by Unicode's names. Cn is what is not assigned, and what is no code point.
// clang-format off
enum class Category : std::uint8_t {
  Cn, Lu, Ll, Lt, Lm, Lo, Mn, Mc, Me, Nd, Nl, No, Pc, Pd, Ps, Pe, Pi, Pf, Po,
  Sm, Sc, Sk, So, Zs, Zl, Zp, Cc, Cf, Co, Cs
};
// clang-format on
inline constexpr int kCategoryCount = 30;

Category category_of(char32_t c);

inline bool is_between(Category c, Category first, Category last) {
  return c >= first && c <= last;
}
inline bool is_letter(Category c) { return is_between(c, Category::Lu, Category::Lo); }  // \p{L}
inline bool is_mark(Category c) { return is_between(c, Category::Mn, Category::Me); }    // \p{M}
inline bool is_number(Category c) { return is_between(c, Category::Nd, Category::No); }  // \p{N}
inline bool is_punctuation(Category c) { return is_between(c, Category::Pc, Category::Po); }
inline bool is_symbol(Category c) { return is_between(c, Category::Sm, Category::So); }

/// \s: the 25 code points with Unicode's White_Space, the same in every version since 6.3.
bool is_whitespace(char32_t c);
/// Where white space that begins at `at` ends, and where that which ends at `at` begins.
std::size_t skip_spaces(std::string_view text, std::size_t at);
std::size_t skip_spaces_back(std::string_view text, std::size_t at);
/// Where the character before `at` starts; `at` is not 0.
std::size_t previous_character(std::string_view text, std::size_t at);

/// One byte for every code point in pages of 256, of which equal ones are there once.
class CodePointTable {
 public:
  /// `value` is asked for each code point.
  explicit CodePointTable(std::uint8_t (*value)(char32_t c, Category category));

  /// 0 for what is no code point.
  std::uint8_t operator[](char32_t c) const {
    return c < 0x110000 ? values_[std::size_t{pages_[c >> 8]} << 8 | (c & 0xFF)] : std::uint8_t{0};
  }

 private:
  std::vector<std::uint16_t> pages_;
  std::vector<std::uint8_t> values_;
};

}  // namespace tessera
