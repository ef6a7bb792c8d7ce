#include "tessera/config/layer_pattern.h"

#include <fmt/ranges.h>

#include <charconv>

#include "tessera/base/check.h"
#include "tessera/config/value.h"
#include "tessera/options/limits.h"

namespace tessera::config {
namespace {

using Pattern = std::vector<std::int64_t>;

// sum := product ('+' product)*    product := list ('*' number)*    list := '[' .. ']' | '(' sum
// ')'
class PatternParser {
 public:
  explicit PatternParser(std::string_view text) : rest_(text) {}

  Pattern parse() {
    Pattern pattern = sum(0);
    if (!rest_.empty()) fail();
    return pattern;
  }

 private:
  static constexpr int kMaxDepth = 16;

  [[noreturn]] static void fail() {
    fail_input(
        "expected a number N for every N-th layer, or a 0 or 1 for each layer, such as "
        "[0,1,1,1] or ([0]*1+[1]*3)");
  }
  bool take(char wanted) {
    while (rest_.starts_with(' ')) rest_.remove_prefix(1);
    if (!rest_.starts_with(wanted)) return false;
    rest_.remove_prefix(1);
    while (rest_.starts_with(' ')) rest_.remove_prefix(1);
    return true;
  }
  void require(char wanted) {
    if (!take(wanted)) fail();
  }
  std::int64_t number() {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc() || value < 0 || value > kMaxLayers) fail();
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    return value;
  }
  static void check_length(std::size_t layers) {
    check_input(layers <= std::size_t{kMaxLayers}, "the list is longer than {} layers", kMaxLayers);
  }

  Pattern sum(int depth) {
    if (depth > kMaxDepth) fail();
    Pattern all = product(depth);
    while (take('+')) {
      const Pattern more = product(depth);
      check_length(all.size() + more.size());
      all.insert(all.end(), more.begin(), more.end());
    }
    return all;
  }
  Pattern product(int depth) {
    Pattern all = list(depth);
    while (take('*')) {
      const auto times = static_cast<std::size_t>(number());
      const Pattern once = all;
      check_length(once.size() * times);
      all.clear();
      for (std::size_t i = 0; i < times; ++i) all.insert(all.end(), once.begin(), once.end());
    }
    return all;
  }
  Pattern list(int depth) {
    if (take('(')) {
      Pattern inside = sum(depth + 1);
      require(')');
      return inside;
    }
    Pattern values;
    require('[');
    do {
      values.push_back(number());
      if (values.back() > 1) fail();
      check_length(values.size());
    } while (take(','));
    require(']');
    return values;
  }

  std::string_view rest_;
};

}  // namespace

std::vector<std::int64_t> parse_layer_pattern(std::string_view text) {
  const bool is_number = !text.empty() && text.find_first_not_of("0123456789") == text.npos;
  if (is_number) return {parse_integer(text, {1, kMaxLayers})};
  return PatternParser(text).parse();
}

std::string layer_pattern_text(const std::vector<std::int64_t>& pattern) {
  if (pattern.size() == 1 && pattern[0] > 1) return fmt::format("{}", pattern[0]);
  return fmt::format("[{}]", fmt::join(pattern, ","));
}

}  // namespace tessera::config
