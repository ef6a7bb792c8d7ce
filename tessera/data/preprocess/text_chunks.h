// Files of text in chunks of whole lines, in order and in fixed memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/data/files/byte_source.h"
#include "tessera/data/files/input_files.h"

namespace tessera {

struct TextChunk {
  const InputFile* file;
  std::int64_t line;  ///< number of its first line, from 1
  std::string text;
};

class TextChunks {
 public:
  /// `files` must outlive it.
  explicit TextChunks(const std::vector<InputFile>& files, std::size_t chunk_bytes = kChunkBytes,
                      std::size_t max_line = kMaxLine);

  /// The next chunk, of about `chunk_bytes`; nothing at the end. A line of plain text that is
  /// longer than `max_line` is cut at a space; for one of JSON that is an InputError.
  std::optional<TextChunk> next();

 private:
  static constexpr std::size_t kChunkBytes = std::size_t{1} << 20;
  static constexpr std::size_t kMaxLine = std::size_t{1} << 26;

  const InputFile& file() const { return files_[file_]; }
  void open();
  /// Adds to `text_` until a chunk can be cut from it. False when the file has no more.
  bool fill();
  std::size_t end_of_chunk(bool at_end) const;

  const std::vector<InputFile>& files_;
  std::size_t chunk_bytes_, max_line_;
  std::size_t file_ = 0;
  std::int64_t line_ = 1;
  std::unique_ptr<ByteSource> source_;
  std::string text_;  // read, but in no chunk yet
};

}  // namespace tessera
