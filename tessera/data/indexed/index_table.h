// The .idx file of an indexed dataset. Little-endian, arrays unaligned:
//
//   offset          content
//   0               9 bytes "MMIDIDX\0\0"
//   9               u64 version = 1
//   17              u8 token type (token_type.h)
//   18              u64 S, the number of sequences
//   26              u64 D, the number of documents + 1
//   34              i32[S] length of each sequence in tokens
//   34 + 4S         i64[S] byte where each sequence starts in the .bin file
//   34 + 12S        i64[D] first sequence of each document; the first is 0 and the last is S
//   34 + 12S + 8D   i8[S] modes, in multimodal files only
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <string_view>

#include "tessera/data/indexed/token_type.h"

namespace tessera {

constexpr std::string_view kIndexMagic{"MMIDIDX\0\0", 9};
constexpr std::uint64_t kIndexVersion = 1;

/// A checked view of the bytes of an .idx file, which must outlive it.
class IndexTable {
 public:
  /// Checks every field against the bytes that there are, and every sequence against a .bin file of
  /// `bin_bytes`. InputError names `file`, the field and its byte offset.
  /// Sequences may lie anywhere in the .bin file, also on top of each other, as long as they start
  /// at whole tokens. More than `most` of them are refused before they are looked at.
  IndexTable(std::span<const std::byte> bytes, std::uint64_t bin_bytes, const std::string& file,
             std::int64_t most = std::numeric_limits<std::int64_t>::max());

  TokenType type() const { return type_; }
  std::int64_t sequences() const { return sequences_; }
  std::int64_t documents() const { return documents_; }
  /// A warning about readable but unusual contents: sequences that are not contiguous, or bytes of
  /// the .bin file that belong to no sequence. Empty: none.
  const std::string& warning() const { return warning_; }
  /// In tokens; 0 <= i < sequences().
  std::int32_t length(std::int64_t i) const { return at<std::int32_t>(lengths_, i); }
  /// In bytes of the .bin file.
  std::int64_t start(std::int64_t i) const { return at<std::int64_t>(starts_, i); }
  /// The first sequence of a document; 0 <= d <= documents().
  std::int64_t document_start(std::int64_t d) const { return at<std::int64_t>(documents_at_, d); }

 private:
  template <class T>
  static T at(const std::byte* array, std::int64_t i) {
    T value;
    std::memcpy(&value, array + i * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
    return value;
  }
  void read_header(std::span<const std::byte> bytes, const std::string& file);
  void read_counts(std::span<const std::byte> bytes, std::int64_t most, const std::string& file);
  void check_sequences(std::uint64_t bin_bytes, const std::string& file);
  void check_documents(const std::string& file) const;

  std::string warning_;
  TokenType type_ = TokenType::u16;
  std::int64_t sequences_ = 0;
  std::int64_t documents_ = 0;
  const std::byte* lengths_ = nullptr;       // i32[S]
  const std::byte* starts_ = nullptr;        // i64[S]
  const std::byte* documents_at_ = nullptr;  // i64[D]
};

}  // namespace tessera
