#include "tessera/config/suggest.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace tessera::config {
namespace {

// No name is longer than this: a longer text is near none of them, and not worth the time.
constexpr std::size_t kLongestName = 64;

}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  std::iota(last.begin(), last.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, replaced});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

std::string did_you_mean(std::string_view typed, std::span<const std::string_view> names,
                         std::string_view prefix) {
  if (typed.size() > kLongestName) return {};
  // One mistake in four letters still looks like the same word.
  std::size_t nearest = (typed.size() + 2) / 4 + 1;
  std::string_view best;
  for (const std::string_view name : names) {
    const auto [shorter, longer] = std::minmax({typed.size(), name.size()});
    if (longer - shorter >= nearest) continue;
    const std::size_t distance = edit_distance(typed, name);
    if (distance < nearest) {
      nearest = distance;
      best = name;
    }
  }
  return best.empty() ? std::string() : fmt::format(" (did you mean {}{}?)", prefix, best);
}

}  // namespace tessera::config
