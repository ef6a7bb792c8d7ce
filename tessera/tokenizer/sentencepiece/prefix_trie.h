// A map from strings to numbers, searched by prefixes of a text. A lookup takes time proportional
// to the match, whatever the number of strings.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tessera {

class PrefixTrie {
 public:
  struct Match {
    std::size_t length;
    std::int32_t value;
  };

  PrefixTrie() = default;
  /// The last of equal strings wins. Values are 0 or more; empty strings are ignored.
  explicit PrefixTrie(std::vector<std::pair<std::string, std::int32_t>> entries);

  bool empty() const { return nodes_.size() <= 1; }

  /// Whether any string starts with this byte.
  bool starts(unsigned char byte) const { return starts_[byte] != 0; }

  /// Calls found(length, value) for every string that `text` starts with, shortest first.
  template <class Found>
  void each_prefix(std::string_view text, const Found& found) const {
    std::uint32_t node = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
      node = child(node, static_cast<unsigned char>(text[i]));
      if (node == 0) return;
      if (nodes_[node].value >= 0) found(i + 1, nodes_[node].value);
    }
  }

  /// The longest string that `text` starts with.
  std::optional<Match> longest(std::string_view text) const;

 private:
  // The children of a node are adjacent, in the order of their labels. The root is node 0.
  struct Node {
    std::uint32_t first_child = 0;
    std::uint16_t children = 0;
    unsigned char label = 0;
    std::int32_t value = -1;
  };

  /// 0 when there is none.
  std::uint32_t child(std::uint32_t node, unsigned char label) const {
    if (node == 0) return starts_[label];
    std::uint32_t low = nodes_[node].first_child;
    std::uint32_t count = nodes_[node].children;
    while (count > 0) {
      const std::uint32_t half = count / 2;
      const unsigned char middle = nodes_[low + half].label;
      if (middle == label) return low + half;
      if (middle < label) {
        low += half + 1;
        count -= half + 1;
      } else {
        count = half;
      }
    }
    return 0;
  }

  std::vector<Node> nodes_;
  std::array<std::uint32_t, 256> starts_{};
};

}  // namespace tessera
