#include "tessera/data/files/compressed_source.h"

#include <algorithm>

#include "tessera/base/check.h"

namespace tessera {

std::size_t CompressedSource::read(char* to, std::size_t room) {
  const std::span<char> out(to, std::min(room, kChunk));
  std::optional<std::size_t> made = 0;
  while (made == std::size_t{0}) made = advance(out);
  more_inside_ = made == out.size() && inside_;
  return made.value_or(0);
}

std::optional<std::size_t> CompressedSource::advance(std::span<char> out) {
  if (in_.empty() && !more_inside_) {
    in_ = std::span(chunk_).first(compressed_->read(chunk_.data(), chunk_.size()));
    if (in_.empty()) {
      check_input(!inside_ && file_bytes() > 0,
                  "'{}' is cut off: it ends at byte {} in the middle of its {} data",
                  path().string(), file_bytes(), format_);
      return std::nullopt;
    }
  }
  more_inside_ = false;
  const Step step = decompress(in_, out, !inside_);
  in_ = in_.subspan(step.used);
  inside_ = step.inside;
  check_input(step.error == nullptr, "'{}' is damaged, or not {}, at byte {}: {}", path().string(),
              format_, file_bytes(), step.error);
  return step.made;
}

}  // namespace tessera
