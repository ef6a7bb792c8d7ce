// A pair of token files while it is written, in memory that does not grow: the tokens and the two
// tables of the index go to files of their own, from which the .idx file is put together at the
// end. It can be left at any durable point and taken up again there.
//
//   BASE.bin         the tokens of all sequences, as in the finished pair
//   BASE.lengths     i32 length of each sequence
//   BASE.documents   i64 for each document: the number of sequences up to its end
//   BASE.idx         at the end
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tessera/data/files/append_file.h"
#include "tessera/data/indexed/token_type.h"

namespace tessera {

struct SpoolPosition {
  std::int64_t tokens = 0;
  std::int64_t sequences = 0;
  std::int64_t documents = 0;

  bool operator==(const SpoolPosition&) const = default;
};

class TokenSpool {
 public:
  /// What the files hold beyond `at` is cut off.
  TokenSpool(const std::string& base, TokenType type, const SpoolPosition& at = {});

  /// For u8, u16 and i32. InputError for a token that does not fit, or more than 2^31 - 1 of them.
  void add_sequence(std::span<const std::int32_t> tokens);
  /// A sequence as it is stored, in the spool's own type.
  void add_stored(std::span<const std::byte> tokens);
  void end_document();

  const SpoolPosition& position() const { return position_; }
  /// All up to position() is on the disk.
  void sync();
  /// BASE.bin and BASE.idx are complete and on the disk.
  void finish();

 private:
  void count_sequence(std::size_t tokens);
  void write_index();
  template <class T>
  void add_narrow(std::span<const std::int32_t> tokens, std::vector<T>& narrow);

  std::string base_;
  TokenType type_;
  SpoolPosition position_;
  AppendFile bin_;
  AppendFile lengths_;
  AppendFile documents_;
  // A sequence on its way to a file of narrow tokens.
  std::vector<std::uint16_t> u16_;
  std::vector<std::uint8_t> u8_;
};

/// Gives a finished spool its real names, PREFIX.bin and PREFIX.idx, durably. A pair never mixes
/// old and new files: an older .idx goes away first, and the new one comes last. Done half before,
/// it does the rest.
void publish_spool(const std::string& base, const std::string& prefix);
/// Removes what there is of its files.
void remove_spool(const std::string& base);

}  // namespace tessera
