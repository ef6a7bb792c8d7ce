// Merges a long piece in O(n log n): the pairs it starts with are sorted once, and those that arise
// on the way are in a heap. Keeps its memory from one piece to the next.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tessera/tokenizer/bpe/bpe_tables.h"

namespace tessera {

class LongMerge {
 public:
  /// Appends the tokens that are left of the symbols.
  void run(const PairTable& pairs, std::span<const std::int32_t> symbols,
           std::vector<std::int32_t>& out);

 private:
  struct Symbol {
    std::int32_t id;
    std::uint32_t next, previous;
    PairTable::Result pair;  ///< with the next one; never, when this is a part of another
  };

  void start(const PairTable& pairs, std::span<const std::int32_t> symbols);
  void merge(const PairTable& pairs, std::uint32_t at);
  void look_up(const PairTable& pairs, std::uint32_t at);

  std::vector<Symbol> chain_;
  // Rank and position: the least comes first, and so, of equal ranks, the leftmost.
  std::vector<std::uint64_t> first_;
  std::vector<std::uint64_t> heap_;
};

}  // namespace tessera
