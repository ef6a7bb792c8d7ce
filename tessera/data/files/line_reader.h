// Reads a text line by line in fixed memory (a chunk, and the longest line).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/data/files/byte_source.h"

namespace tessera {

/// The bytes of a byte order mark at the start of a text. InputError for a text that starts as
/// UTF-16, or as a compressed file under a name without .gz or .zst.
std::size_t check_text_start(std::string_view start, const fs::path& path);

inline bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t\r") == std::string_view::npos;
}

/// Lines end with "\n" or the end of the text. A byte order mark at the start of the text is
/// dropped; check_text_start says what else may not be there.
class LineReader {
 public:
  static constexpr std::size_t kMaxLineBytes = std::size_t{1} << 30;

  explicit LineReader(std::unique_ptr<ByteSource> source, std::size_t max_line = kMaxLineBytes);

  /// Goes on behind a line that was read before: its number and the bytes up to its end.
  void resume(std::int64_t number, std::int64_t bytes);
  /// Puts the next line, without its "\n", into `line`. False at the end of the text.
  bool next(std::string& line);
  /// The line that next gave last has more bytes than may be: it holds none of them.
  bool too_long() const { return too_long_; }
  /// Of the line that next gave last, from 1.
  std::int64_t number() const { return number_; }
  /// Of the text, up to the end of that line.
  std::int64_t bytes() const { return bytes_; }
  /// Of the file, compressed as it is; all that was read ahead included.
  std::int64_t file_bytes() const { return source_->file_bytes(); }

 private:
  bool fill();
  void check_start();
  void append(std::string& line, const char* from, std::size_t size);

  std::unique_ptr<ByteSource> source_;
  std::size_t max_line_;
  std::vector<char> chunk_;
  std::size_t at_ = 0;
  std::size_t filled_ = 0;
  std::int64_t number_ = 0;
  std::int64_t bytes_ = 0;
  bool too_long_ = false;
};

}  // namespace tessera
