#include "tessera/launch/rank.h"

#include <fmt/core.h>

namespace tessera {

std::string list_of_ranks(const std::vector<int>& ranks) {
  std::vector<std::string> runs;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    if (end - i > 2)
      runs.push_back(fmt::format("{}-{}", ranks[i], ranks[end - 1]));
    else
      for (std::size_t each = i; each < end; ++each) runs.push_back(std::to_string(ranks[each]));
    i = end;
  }
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < runs.size(); ++i)
    text += (i == 0 ? "" : i + 1 == runs.size() ? " and " : ", ") + runs[i];
  return text;
}

}  // namespace tessera
