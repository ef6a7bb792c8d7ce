// Strict conversion of a flag's value from text and back. An InputError states what was expected;
// the caller adds the flag and the text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tessera::config {

struct IntegerRange {
  std::int64_t min;
  std::int64_t max;

  bool has(std::int64_t value) const { return value >= min && value <= max; }
  std::string expected() const;
};

struct RealRange {
  double min;
  double max;
  bool without_min = false;
  bool without_max = false;

  /// False for NaN.
  bool has(double value) const;
  std::string expected() const;
};

/// Decimal digits with an optional minus sign, nothing else.
std::int64_t parse_integer(std::string_view text, const IntegerRange& range);
/// A finite decimal number.
double parse_real(std::string_view text, const RealRange& range);
/// "true" or "false".
bool parse_switch(std::string_view text);
/// Text that can be stored: UTF-8 without NUL, not empty, at most `limit` bytes.
std::string parse_text(std::string_view text, std::size_t limit);
/// Megatron's attention window "L,R" or "(L,R)": a query attends to L keys to its left and R to its
/// right. Returns the number of keys including its own; 0 means all.
std::int64_t parse_window(std::string_view text);

/// A square grid of ranks "q,q" or "(q,q)": returns q, which is at least 2.
int parse_grid(std::string_view text);

/// A size such as 500MB or 5GB (powers of ten), or 4GiB (powers of two), or plain bytes.
std::int64_t parse_size(std::string_view text, const IntegerRange& range);
/// The shortest text that reads back as the same size.
std::string size_text(std::int64_t bytes);

/// The shortest text that reads back as the same number.
std::string to_text(double value);

bool is_utf8(std::string_view text);

/// 'text' for a message: shortened, and without control characters.
std::string quote(std::string_view text);

}  // namespace tessera::config
