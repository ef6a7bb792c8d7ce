// Reads a text file line by line in fixed memory (a chunk, and the longest line).
#pragma once

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "tessera/base/files.h"

namespace tessera {

class LineReader {
 public:
  /// InputError when the file cannot be opened.
  explicit LineReader(const fs::path& path);

  /// Puts the next line, without its line end, into `line`. False at the end of the file.
  /// InputError for a line beyond 1 GiB, which means that the file is not made of lines.
  bool next(std::string& line);
  /// Of the line that next gave last, from 1.
  std::int64_t number() const { return number_; }
  /// Read so far.
  std::int64_t bytes() const { return bytes_; }

 private:
  bool fill();

  std::string name_;
  std::ifstream file_;
  std::vector<char> chunk_;
  std::size_t at_ = 0;
  std::size_t filled_ = 0;
  std::int64_t number_ = 0;
  std::int64_t bytes_ = 0;
};

}  // namespace tessera
