// The lookup tables of byte pair encoding: the vocabulary, and the pairs that merge.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tessera/tokenizer/bpe/bpe.h"

namespace tessera {

/// Maps two neighbouring tokens to the rank and the result of their merge: mostly one probe of an
/// open hash table.
class PairTable {
 public:
  static constexpr std::uint32_t kNever = std::numeric_limits<std::uint32_t>::max();
  struct Result {
    std::uint32_t rank;  ///< kNever: they do not merge
    std::int32_t merged;
  };

  /// For about `pairs` of them.
  void reserve(std::size_t pairs);
  /// A pair that is there already gets the new rank.
  void set(std::int32_t left, std::int32_t right, Result result);

  Result find(std::int32_t left, std::int32_t right) const {
    const std::uint64_t key = key_of(left, right), hash = hash_of(key);
    if ((filter_[hash >> 6 & filter_mask_] >> (hash & 63) & 1) == 0) return {kNever, -1};
    for (std::size_t i = hash & mask_;; i = (i + 1) & mask_)
      if (slots_[i].key == key || slots_[i].key == kEmpty) return slots_[i].result;
  }

 private:
  static constexpr std::uint64_t kEmpty = std::numeric_limits<std::uint64_t>::max();
  struct Slot {
    std::uint64_t key = kEmpty;
    Result result{kNever, -1};
  };

  static std::uint64_t key_of(std::int32_t left, std::int32_t right) {
    return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 |
           static_cast<std::uint32_t>(right);
  }
  static std::size_t hash_of(std::uint64_t key) { return key * 0x9E3779B97F4A7C15u >> 20; }

  std::vector<Slot> slots_ = std::vector<Slot>(2);
  std::size_t mask_ = 1, count_ = 0;
  /// A bit for each hash that occurs: most pairs do not merge, and this is small enough to stay
  /// near. Eight bits for each slot.
  std::vector<std::uint64_t> filter_ = std::vector<std::uint64_t>(1);
  std::size_t filter_mask_ = 0;
};

/// All tables of a Bpe.
class BpeTables {
 public:
  explicit BpeTables(const BpeSpec& spec);

  const PairTable& pairs() const { return pairs_; }
  bool ignores_merges() const { return ignore_merges_; }
  bool starts_as_bytes() const { return !characters_; }
  /// The initial symbols of a piece, one per byte; writes at most piece.size().
  std::size_t bytes_to_symbols(std::string_view piece, std::int32_t* symbols) const;
  std::vector<std::int32_t> symbols(std::string_view piece) const;

  std::int32_t find(std::string_view token) const;
  std::string_view bytes(std::int32_t token) const;
  std::int64_t size() const { return static_cast<std::int64_t>(bytes_.size()); }

 private:
  void add_tokens(const BpeSpec& spec);
  void add_merges(const BpeSpec& spec);
  void merge_by_number();
  void find_bytes();
  bool append_fallback(std::string_view character, std::vector<std::int32_t>& symbols) const;

  std::vector<std::string> bytes_;  // by number
  std::size_t longest_ = 0;         // of them
  std::unordered_map<std::string_view, std::int32_t> numbers_;
  PairTable pairs_;
  std::array<std::int32_t, 256> first_{};     // of bytes; -1: unknown
  std::array<std::int32_t, 256> fallback_{};  // <0x00>..<0xFF>; -1: there is none
  bool characters_, byte_fallback_, fuse_unk_, ignore_merges_;
  std::optional<std::int32_t> unk_;
  std::string prefix_, suffix_;
};

}  // namespace tessera
