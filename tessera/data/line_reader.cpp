#include "tessera/data/line_reader.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "tessera/base/check.h"

namespace tessera {
namespace {

constexpr std::size_t kChunkBytes = std::size_t{1} << 20;
constexpr std::size_t kMaxLineBytes = std::size_t{1} << 30;

}  // namespace

LineReader::LineReader(const fs::path& path)
    : name_(path.string()), file_(path, std::ios::binary), chunk_(kChunkBytes) {
  check_input(file_.is_open(), "cannot open '{}': {}", name_, std::strerror(errno));
}

bool LineReader::fill() {
  file_.read(chunk_.data(), static_cast<std::streamsize>(chunk_.size()));
  check_input(!file_.bad(), "cannot read '{}' at byte {}: {}", name_, bytes_, std::strerror(errno));
  at_ = 0;
  filled_ = static_cast<std::size_t>(file_.gcount());
  bytes_ += static_cast<std::int64_t>(filled_);
  return filled_ > 0;
}

bool LineReader::next(std::string& line) {
  line.clear();
  ++number_;
  while (at_ < filled_ || fill()) {
    const auto begin = chunk_.begin() + static_cast<std::ptrdiff_t>(at_);
    const auto end = chunk_.begin() + static_cast<std::ptrdiff_t>(filled_);
    const auto line_end = std::find(begin, end, '\n');
    line.append(begin, line_end);
    check_input(line.size() <= kMaxLineBytes, "'{}' line {} is longer than {} bytes", name_,
                number_, kMaxLineBytes);
    at_ += static_cast<std::size_t>(line_end - begin) + (line_end != end ? 1 : 0);
    if (line_end != end) return true;
  }
  return !line.empty();  // the last line may lack its line end
}

}  // namespace tessera
