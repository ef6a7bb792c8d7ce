// The table of replacements that SentencePiece puts into its models ("precompiled_charsmap"), and
// that tokenizer.json carries as "Precompiled": a trie as a double array, then the texts that
// replace what it finds, each ended by a zero byte.
//
//   u32 size of the trie in bytes | u32 units of the trie | texts
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

class Charsmap {
 public:
  struct Rule {
    std::size_t length;            ///< of what is replaced
    std::string_view replacement;  ///< lives as long as the table
  };

  Charsmap() = default;
  /// InputError names `what`. No bytes: no rules.
  Charsmap(std::string_view blob, const std::string& what);

  /// The rule for the longest prefix of `text` that has one: SentencePiece's choice.
  std::optional<Rule> longest(std::string_view text) const;
  /// The rule for the shortest one, which is what Hugging Face takes; it stops at a zero byte.
  std::optional<Rule> shortest(std::string_view text) const;

 private:
  std::optional<Rule> find(std::string_view text, bool shortest) const;
  Rule rule(std::size_t length, std::size_t text) const;

  std::vector<std::uint32_t> units_;
  std::string texts_;
  std::string what_;
};

}  // namespace tessera
