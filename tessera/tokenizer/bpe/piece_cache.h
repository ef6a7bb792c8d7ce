// Remembers the tokens of short pieces. Natural text repeats its words: most pieces are found here
// with one comparison of 32 bytes. A table of fixed size in which a new piece replaces an old one.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace tessera {

class PieceCache {
 public:
  static constexpr std::size_t kLongest = 32;  ///< bytes of a piece
  static constexpr std::size_t kMost = 5;      ///< tokens of a piece

  static bool holds(std::string_view piece) { return piece.size() <= kLongest && !piece.empty(); }

  /// A piece in four words: its beginning and its end, which overlap or meet, and its length.
  struct Key {
    std::array<std::uint64_t, 4> words{};
    std::uint32_t length = 0;

    Key() = default;
    explicit Key(std::string_view piece) : length(static_cast<std::uint32_t>(piece.size())) {
      const char* begin = piece.data();
      const char* end = begin + piece.size();
      if (piece.size() >= 16)
        words = {load<8>(begin), load<8>(begin + 8), load<8>(end - 16), load<8>(end - 8)};
      else if (piece.size() >= 8)
        words = {load<8>(begin), load<8>(end - 8)};
      else if (piece.size() >= 4)
        words = {load<4>(begin), load<4>(end - 4)};
      else
        words = {load<1>(begin), load<1>(begin + piece.size() / 2), load<1>(end - 1)};
    }
    bool operator==(const Key& other) const {  // the library's would call memcmp
      std::uint64_t differing = length ^ other.length;
      for (std::size_t i = 0; i < words.size(); ++i) differing |= words[i] ^ other.words[i];
      return differing == 0;
    }

    std::size_t hash() const {
      std::uint64_t h = length;
      for (const std::uint64_t word : words) {
        h = (h ^ word) * 0x9E3779B97F4A7C15u;
        h ^= h >> 32;
      }
      return h;
    }

   private:
    template <std::size_t bytes>
    static std::uint64_t load(const char* from) {
      std::uint64_t word = 0;
      std::memcpy(&word, from, bytes);
      return word;
    }
  };

  struct Slot {
    Key key;
    std::uint32_t count = 0;
    std::array<std::int32_t, kMost> tokens{};

    void append_to(std::vector<std::int32_t>& out) const {
      out.insert(out.end(), tokens.begin(), tokens.begin() + count);
    }
    /// Pieces of more tokens are left out.
    void store(const Key& of, std::span<const std::int32_t> found) {
      if (found.size() > kMost) return;
      key = of;
      count = static_cast<std::uint32_t>(found.size());
      std::copy(found.begin(), found.end(), tokens.begin());
    }
  };

  Slot& slot(const Key& key) { return slots_[key.hash() & (kSlots - 1)]; }

 private:
  static constexpr std::size_t kSlots = 1 << 16;
  std::vector<Slot> slots_ = std::vector<Slot>(kSlots);
};

}  // namespace tessera
