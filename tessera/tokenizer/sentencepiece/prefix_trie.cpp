#include "tessera/tokenizer/sentencepiece/prefix_trie.h"

#include <algorithm>

#include "tessera/base/check.h"

namespace tessera {
namespace {

// The strings [begin, end) share their first `depth` bytes, which are those of `node`.
struct Work {
  std::uint32_t node;
  std::size_t begin, end, depth;
};

}  // namespace

PrefixTrie::PrefixTrie(std::vector<std::pair<std::string, std::int32_t>> entries) {
  std::stable_sort(entries.begin(), entries.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  nodes_.emplace_back();
  std::vector<Work> open{{0, 0, entries.size(), 0}};
  for (std::size_t next = 0; next < open.size(); ++next) {
    const Work work = open[next];
    std::size_t at = work.begin;
    for (; at < work.end && entries[at].first.size() == work.depth; ++at)
      if (work.depth > 0) nodes_[work.node].value = entries[at].second;
    nodes_[work.node].first_child = static_cast<std::uint32_t>(nodes_.size());
    while (at < work.end) {
      const char label = entries[at].first[work.depth];
      std::size_t end = at + 1;
      while (end < work.end && entries[end].first[work.depth] == label) ++end;
      check(nodes_.size() < 0xFFFFFFFFu, "a trie of 2^32 nodes");
      open.push_back({static_cast<std::uint32_t>(nodes_.size()), at, end, work.depth + 1});
      nodes_.push_back({.label = static_cast<unsigned char>(label)});
      ++nodes_[work.node].children;
      at = end;
    }
  }
  for (std::uint32_t i = 0; i < nodes_[0].children; ++i) {
    const std::uint32_t first = nodes_[0].first_child + i;
    starts_[nodes_[first].label] = first;
  }
}

std::optional<PrefixTrie::Match> PrefixTrie::longest(std::string_view text) const {
  std::optional<Match> best;
  each_prefix(text, [&](std::size_t length, std::int32_t value) { best = Match{length, value}; });
  return best;
}

}  // namespace tessera
