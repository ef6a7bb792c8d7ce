#include "tessera/tokenizer/bpe/long_merge.h"

#include <algorithm>
#include <functional>
#include <limits>

namespace tessera {

void LongMerge::run(const PairTable& pairs, std::span<const std::int32_t> symbols,
                    std::vector<std::int32_t>& out) {
  start(pairs, symbols);
  constexpr std::uint64_t kEnd = std::numeric_limits<std::uint64_t>::max();
  for (std::size_t taken = 0; taken < first_.size() || !heap_.empty();) {
    const std::uint64_t first = taken < first_.size() ? first_[taken] : kEnd;
    std::uint64_t top = first;
    if (!heap_.empty() && heap_.front() < first) {
      top = heap_.front();
      std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
      heap_.pop_back();
    } else {
      ++taken;
    }
    const auto at = static_cast<std::uint32_t>(top);
    // A pair that is no longer there has another rank than the one that is; or the same, and then
    // it becomes the same token.
    if (chain_[at].pair.rank == top >> 32) merge(pairs, at);
  }
  for (std::size_t i = 0; i < chain_.size(); i = chain_[i].next) out.push_back(chain_[i].id);
  constexpr std::size_t kKept = std::size_t{1} << 16;
  if (chain_.capacity() > kKept) *this = {};
}

void LongMerge::start(const PairTable& pairs, std::span<const std::int32_t> symbols) {
  constexpr PairTable::Result kNone{PairTable::kNever, -1};
  chain_.resize(symbols.size());
  heap_.clear();
  first_.clear();
  for (std::size_t i = 0; i < symbols.size(); ++i) {
    const bool last = i + 1 == symbols.size();
    chain_[i] = {symbols[i], static_cast<std::uint32_t>(i + 1), static_cast<std::uint32_t>(i) - 1,
                 last ? kNone : pairs.find(symbols[i], symbols[i + 1])};
    const std::uint32_t rank = chain_[i].pair.rank;
    if (rank != PairTable::kNever) first_.push_back(std::uint64_t{rank} << 32 | i);
  }
  std::sort(first_.begin(), first_.end());
}

void LongMerge::merge(const PairTable& pairs, std::uint32_t at) {
  Symbol& left = chain_[at];
  Symbol& right = chain_[left.next];
  left.id = left.pair.merged;
  right.pair.rank = PairTable::kNever;
  left.next = right.next;
  if (left.next < chain_.size()) chain_[left.next].previous = at;
  look_up(pairs, at);
  if (at > 0) look_up(pairs, left.previous);
}

void LongMerge::look_up(const PairTable& pairs, std::uint32_t at) {
  Symbol& left = chain_[at];
  left.pair.rank = PairTable::kNever;
  if (left.next >= chain_.size()) return;
  left.pair = pairs.find(left.id, chain_[left.next].id);
  if (left.pair.rank == PairTable::kNever) return;
  heap_.push_back(std::uint64_t{left.pair.rank} << 32 | at);
  std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
}

}  // namespace tessera
