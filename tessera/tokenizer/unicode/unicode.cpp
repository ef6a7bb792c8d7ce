#include "tessera/tokenizer/unicode/unicode.h"

#include <algorithm>
#include <map>

#include "tessera/tokenizer/unicode/unicode_table.h"

namespace tessera {
namespace {

constexpr std::size_t kPage = 256;
constexpr char32_t kCodePoints = 0x110000;

unsigned byte_at(std::string_view text, std::size_t at) {
  return static_cast<unsigned char>(text[at]);
}

// What a first byte promises: how many bytes follow, and which values the first of these may have.
// That range is what keeps out overlong forms, surrogates and what is beyond U+10FFFF.
struct Lead {
  std::size_t rest = 0;
  unsigned low = 0x80, high = 0xBF;
};

Lead lead_of(unsigned byte) {
  if (byte >= 0xC2 && byte <= 0xDF) return {1};
  if (byte == 0xE0) return {2, 0xA0};
  if (byte == 0xED) return {2, 0x80, 0x9F};
  if (byte >= 0xE1 && byte <= 0xEF) return {2};
  if (byte == 0xF0) return {3, 0x90};
  if (byte == 0xF4) return {3, 0x80, 0x8F};
  if (byte >= 0xF1 && byte <= 0xF3) return {3};
  return {};
}

// Every code point's category, one after the other.
std::vector<Category> expand_runs() {
  std::vector<Category> all(kCodePoints);
  for (std::size_t i = 0; i < kCategoryRunCount; ++i) {
    const std::size_t begin = kCategoryRuns[i] / 32;
    const std::size_t end = i + 1 < kCategoryRunCount ? kCategoryRuns[i + 1] / 32 : kCodePoints;
    std::fill(all.begin() + begin, all.begin() + end, static_cast<Category>(kCategoryRuns[i] % 32));
  }
  return all;
}

}  // namespace

CodePoint decode_utf8(std::string_view text, std::size_t at) {
  const unsigned first = byte_at(text, at);
  if (first < 0x80) return {first, 1};
  const Lead lead = lead_of(first);
  if (lead.rest == 0) return {kInvalidCodePoint, 1};
  char32_t value = first & (0x3Fu >> lead.rest);
  for (std::size_t i = 1; i <= lead.rest; ++i) {
    const unsigned byte = at + i < text.size() ? byte_at(text, at + i) : 0;
    const bool fits = i == 1 ? byte >= lead.low && byte <= lead.high : (byte & 0xC0) == 0x80;
    if (!fits) return {kInvalidCodePoint, i};
    value = value << 6 | (byte & 0x3F);
  }
  return {value, lead.rest + 1};
}

void append_utf8(std::string& text, char32_t value) {
  if (value >= kCodePoints || (value >= 0xD800 && value < 0xE000)) value = kReplacementCharacter;
  const auto put = [&](char32_t byte) { text.push_back(static_cast<char>(byte)); };
  if (value < 0x80) return put(value);
  if (value < 0x800) {
    put(0xC0 | value >> 6);
  } else {
    if (value < 0x10000) {
      put(0xE0 | value >> 12);
    } else {
      put(0xF0 | value >> 18);
      put(0x80 | (value >> 12 & 0x3F));
    }
    put(0x80 | (value >> 6 & 0x3F));
  }
  put(0x80 | (value & 0x3F));
}

bool is_valid_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint c = next_code_point(text, at);
    if (c.value == kInvalidCodePoint) return false;
    at += c.length;
  }
  return true;
}

std::string to_valid_utf8(std::string_view text) {
  std::string valid;
  valid.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint c = decode_utf8(text, at);
    append_utf8(valid, c.value);
    at += c.length;
  }
  return valid;
}

CodePointTable::CodePointTable(std::uint8_t (*value)(char32_t c, Category category)) {
  const std::vector<Category> categories = expand_runs();
  std::map<std::vector<std::uint8_t>, std::uint16_t> known;
  std::vector<std::uint8_t> page(kPage);
  for (char32_t c = 0; c < kCodePoints; c += kPage) {
    for (char32_t i = 0; i < kPage; ++i) page[i] = value(c + i, categories[c + i]);
    const auto [at, is_new] = known.emplace(page, static_cast<std::uint16_t>(known.size()));
    if (is_new) values_.insert(values_.end(), page.begin(), page.end());
    pages_.push_back(at->second);
  }
}

Category category_of(char32_t c) {
  static const CodePointTable table(
      [](char32_t, Category category) { return static_cast<std::uint8_t>(category); });
  return static_cast<Category>(table[c]);
}

bool is_whitespace(char32_t c) {
  return (c >= 9 && c <= 13) || c == ' ' || c == 0x85 ||
         (c >= 0xA0 && is_between(category_of(c), Category::Zs, Category::Zp));
}

std::size_t previous_character(std::string_view text, std::size_t at) {
  do --at;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80);
  return at;
}

std::size_t skip_spaces_back(std::string_view text, std::size_t at) {
  while (at > 0) {
    const std::size_t before = previous_character(text, at);
    if (!is_whitespace(decode_utf8(text, before).value)) break;
    at = before;
  }
  return at;
}

std::size_t skip_spaces(std::string_view text, std::size_t at) {
  while (at < text.size()) {
    const CodePoint c = decode_utf8(text, at);
    if (!is_whitespace(c.value)) break;
    at += c.length;
  }
  return at;
}

}  // namespace tessera
