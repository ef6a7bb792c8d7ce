#include "tessera/config/value.h"

#include <charconv>
#include <cmath>

#include "tessera/base/check.h"
#include "tessera/options/limits.h"

namespace tessera::config {
namespace {

// Reads all of `text` as one number; false when it is anything else or does not fit.
template <class T>
bool read_number(std::string_view text, T& value) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end;
}

// Two numbers as "a,b" or "(a,b)"; false when it is anything else.
bool read_pair(std::string_view text, std::int64_t& first, std::int64_t& second) {
  if (text.size() >= 2 && text.front() == '(' && text.back() == ')')
    text = text.substr(1, text.size() - 2);
  const std::size_t comma = text.find(',');
  std::string_view rest = comma < text.size() ? text.substr(comma + 1) : std::string_view();
  if (rest.starts_with(' ')) rest.remove_prefix(1);
  return read_number(text.substr(0, comma), first) && read_number(rest, second);
}

// The bytes of the UTF-8 sequence that starts with `first`; 0 when none does.
std::size_t sequence_length(unsigned char first) {
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first < 0xe0) return 2;
  if (first >= 0xe0 && first < 0xf0) return 3;
  return first >= 0xf0 && first < 0xf5 ? 4 : 0;
}

// Overlong forms, surrogates and values past U+10FFFF show in the second byte.
bool second_byte_fits(unsigned char first, unsigned char second) {
  if (first == 0xe0) return second >= 0xa0;
  if (first == 0xed) return second < 0xa0;
  if (first == 0xf0) return second >= 0x90;
  return first != 0xf4 || second < 0x90;
}

}  // namespace

std::string IntegerRange::expected() const {
  return fmt::format("expected an integer from {} to {}", min, max);
}

bool RealRange::has(double value) const {
  const bool above = without_min ? value > min : value >= min;
  return above && (without_max ? value < max : value <= max);
}

std::string RealRange::expected() const {
  return fmt::format("expected a number {} {} and {} {}", without_min ? "above" : "of at least",
                     to_text(min), without_max ? "below" : "at most", to_text(max));
}

std::int64_t parse_integer(std::string_view text, const IntegerRange& range) {
  std::int64_t value = 0;
  check_input(read_number(text, value) && range.has(value), "{}", range.expected());
  return value;
}

double parse_real(std::string_view text, const RealRange& range) {
  double value = 0;
  check_input(read_number(text, value) && std::isfinite(value) && range.has(value), "{}",
              range.expected());
  return value;
}

bool parse_switch(std::string_view text) {
  check_input(text == "true" || text == "false", "expected true or false");
  return text == "true";
}

std::string parse_text(std::string_view text, std::size_t limit) {
  check_input(!text.empty(), "expected text, got nothing");
  check_input(text.size() <= limit, "expected at most {} bytes, got {}", limit, text.size());
  check_input(text.find('\0') == std::string_view::npos, "expected text without NUL bytes");
  check_input(is_utf8(text), "expected UTF-8 text");
  return std::string(text);
}

std::int64_t parse_window(std::string_view text) {
  std::int64_t left = 0, right = 0;
  check_input(read_pair(text, left, right) && left >= -1 && left < kMaxPositions,
              "expected LEFT,RIGHT, such as 4095,0 for 4096 keys with the query's own, or -1,0 for "
              "all keys");
  check_input(right == 0, "the right side must be 0: attention is causal");
  return left + 1;
}

int parse_grid(std::string_view text) {
  std::int64_t rows = 0, columns = 0;
  const IntegerRange side{2, kMaxGridSide};
  const bool ok = read_pair(text, rows, columns) && side.has(rows) && side.has(columns);
  check_input(ok, "expected two equal numbers from {} to {}, such as 2,2 for a grid of 4 ranks",
              side.min, side.max);
  check_input(
      rows == columns,
      "the grid must be square, since its rows and columns exchange parts of the same size: "
      "give {0},{0} or {1},{1}",
      rows, columns);
  return static_cast<int>(rows);
}

namespace {

struct SizeUnit {
  std::string_view name;
  std::int64_t bytes;
};
constexpr SizeUnit kSizeUnits[] = {
    {"TB", 1'000'000'000'000},
    {"TiB", std::int64_t{1} << 40},
    {"GB", 1'000'000'000},
    {"GiB", std::int64_t{1} << 30},
    {"MB", 1'000'000},
    {"MiB", std::int64_t{1} << 20},
    {"KB", 1'000},
    {"KiB", std::int64_t{1} << 10},
    {"", 1},
};

}  // namespace

std::int64_t parse_size(std::string_view text, const IntegerRange& range) {
  for (const SizeUnit& unit : kSizeUnits) {
    if (!text.ends_with(unit.name)) continue;
    const std::string_view digits = text.substr(0, text.size() - unit.name.size());
    std::int64_t count = 0;
    const bool fits = read_number(digits, count) && count >= 0 && count <= range.max / unit.bytes &&
                      range.has(count * unit.bytes);
    check_input(fits, "expected a size from {} to {}, such as 500MB, 5GB or 4GiB",
                size_text(range.min), size_text(range.max));
    return count * unit.bytes;
  }
  return 0;  // not reached: the last unit has no name
}

std::string size_text(std::int64_t bytes) {
  for (const SizeUnit& unit : kSizeUnits)
    if (bytes % unit.bytes == 0 && bytes >= unit.bytes)
      return fmt::format("{}{}", bytes / unit.bytes, unit.name);
  return "0";
}

std::string to_text(double value) { return fmt::format("{}", value); }

bool is_utf8(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = sequence_length(byte(i));
    if (length == 0 || length > text.size() - i) return false;
    if (length > 1 && !second_byte_fits(byte(i), byte(i + 1))) return false;
    for (std::size_t k = 1; k < length; ++k)
      if ((byte(i + k) & 0xc0) != 0x80) return false;
    i += length;
  }
  return true;
}

std::string quote(std::string_view text) {
  constexpr std::size_t kLongestQuote = 60;
  const std::string_view start = text.substr(0, kLongestQuote);
  const unsigned char end_of_printable = is_utf8(start) ? 0xff : 0x7f;
  std::string shown = "'";
  for (const char c : start) {
    const auto byte = static_cast<unsigned char>(c);
    shown += byte >= 0x20 && byte != 0x7f && byte < end_of_printable ? c : '?';
  }
  return shown + (text.size() > kLongestQuote ? "...'" : "'");
}

}  // namespace tessera::config
