// Byte pair encoding: a piece starts as its bytes or characters, and the neighbouring pair with the
// lowest rank (the leftmost of several) is merged until no pair is left.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tessera {

/// The definition of a Bpe.
struct BpeSpec {
  struct Merge {
    std::string left, right;  ///< tokens, as they stand in the vocabulary
  };

  std::vector<std::pair<std::string, std::int32_t>> tokens;  ///< bytes and number of each
  std::vector<Merge> merges;  ///< the first has the lowest rank; of equal pairs the last counts
  /// tiktoken's way: any two neighbours merge that make up a token, and its number is the rank.
  /// Needs all 256 bytes, and no `merges`.
  bool merge_by_number = false;

  /// Pieces start as characters (UTF-8) rather than bytes. The following options are for characters
  /// only.
  bool characters = false;
  bool byte_fallback = false;  ///< an unknown character becomes tokens <0x00>..<0xFF>, if all are
  std::optional<std::int32_t> unk;  ///< else this; an unknown character without it is left out
  bool fuse_unk = false;            ///< neighbouring unknown characters are one
  std::string continuing_prefix;    ///< before each character but a piece's first (WordPiece's ##)
  std::string end_suffix;           ///< after the last character of a piece

  bool ignore_merges = false;  ///< a piece that is a token is encoded as that token, without merges
};

template <class Thing>
class Pool;
struct EncoderMemory;

inline constexpr std::size_t kMaxPieceBytes = std::size_t{1} << 31;

class Bpe {
 public:
  /// InputError, without the file's name, for merges of unknown tokens, duplicate numbers or
  /// tokens, and the like.
  explicit Bpe(const BpeSpec& spec);
  ~Bpe();
  Bpe(const Bpe&) = delete;
  Bpe& operator=(const Bpe&) = delete;

  /// Appends the tokens of one piece. Time is O(n log n) in its length. Any number of threads may.
  void encode(std::string_view piece, std::vector<std::int32_t>& out) const;

  /// The number of a token by its bytes, or -1.
  std::int32_t find(std::string_view token) const;
  /// The bytes of a token; empty where there is none.
  std::string_view bytes(std::int32_t token) const;
  /// One more than the highest number.
  std::int64_t size() const;

 private:
  friend class BpeEncoder;
  void encode(std::string_view piece, class LongMerge& merge, std::vector<std::int32_t>& out) const;

  std::unique_ptr<const class BpeTables> tables_;
  std::unique_ptr<Pool<EncoderMemory>> memories_;
};

/// Encodes piece after piece, with a cache of pieces. For one thread at a time. The cache is
/// bounded and is passed on to the next BpeEncoder of the same Bpe.
class BpeEncoder {
 public:
  explicit BpeEncoder(const Bpe& bpe);
  ~BpeEncoder();
  BpeEncoder(const BpeEncoder&) = delete;
  BpeEncoder& operator=(const BpeEncoder&) = delete;

  void encode(std::string_view piece, std::vector<std::int32_t>& out);

 private:
  const Bpe& bpe_;
  std::unique_ptr<EncoderMemory> memory_;
};

}  // namespace tessera
