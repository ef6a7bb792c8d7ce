#include "tessera/data/preprocess/text_chunks.h"

#include <algorithm>

#include "tessera/base/check.h"
#include "tessera/data/files/line_reader.h"

namespace tessera {

TextChunks::TextChunks(const std::vector<InputFile>& files, std::size_t chunk_bytes,
                       std::size_t max_line)
    : files_(files), chunk_bytes_(chunk_bytes), max_line_(std::max(max_line, chunk_bytes)) {}

std::optional<TextChunk> TextChunks::next() {
  for (; file_ < files_.size(); ++file_) {
    if (!source_) open();
    const bool more = fill();
    if (text_.empty()) {
      source_.reset();
      continue;
    }
    TextChunk chunk{&file(), line_, text_.substr(0, end_of_chunk(!more))};
    text_.erase(0, chunk.text.size());
    line_ += std::count(chunk.text.begin(), chunk.text.end(), '\n');
    return chunk;
  }
  return std::nullopt;
}

void TextChunks::open() {
  source_ = open_source(file().path);
  line_ = 1;
  fill();
  text_.erase(0, check_text_start(text_, file().path));
}

bool TextChunks::fill() {
  std::size_t searched = 0;
  while (text_.size() < chunk_bytes_ || text_.find('\n', searched) == std::string::npos) {
    if (text_.size() >= max_line_) return true;
    searched = text_.size();
    text_.resize(searched + chunk_bytes_);
    const std::size_t got = source_->read(text_.data() + searched, chunk_bytes_);
    text_.resize(searched + got);
    if (got == 0) return false;
  }
  return true;
}

std::size_t TextChunks::end_of_chunk(bool at_end) const {
  const std::size_t line = text_.rfind('\n');
  if (at_end) return text_.size();
  if (line != std::string::npos) return line + 1;
  check_input(!file().is_json_by_name, "{} line {} has more than {} bytes: split it",
              file().shown(), line_, max_line_);
  const std::size_t space = text_.rfind(' ');
  return space == std::string::npos || space == 0 ? text_.size() : space;
}

}  // namespace tessera
