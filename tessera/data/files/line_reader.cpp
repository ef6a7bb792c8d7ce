#include "tessera/data/files/line_reader.h"

#include <cstring>
#include <string_view>

#include "tessera/base/check.h"

namespace tessera {
namespace {

constexpr std::size_t kChunkBytes = std::size_t{1} << 17;
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

struct ForeignStart {
  std::string_view bytes;
  const char* what;
};

// What people give for text, and how they fix it.
constexpr ForeignStart kForeign[] = {
    {"\xff\xfe", "UTF-16 text: convert it, as by `iconv -f UTF-16 -t UTF-8`"},
    {"\xfe\xff", "UTF-16 text: convert it, as by `iconv -f UTF-16 -t UTF-8`"},
    {"\x1f\x8b", "a gzip file: let its name end in .gz"},
    {"\x28\xb5\x2f\xfd", "a zstd file: let its name end in .zst"},
    {"BZh", "a bzip2 file: decompress it, or store it as .gz or .zst"},
    {"\xfd\x37zXZ", "an xz file: decompress it, or store it as .gz or .zst"},
    {"PAR1", "a Parquet file: convert it to JSON lines"},
};

}  // namespace

std::size_t check_text_start(std::string_view start, const fs::path& path) {
  for (const auto& [bytes, what] : kForeign)
    check_input(!start.starts_with(bytes), "'{}' is {}", path.string(), what);
  return start.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0;
}

LineReader::LineReader(std::unique_ptr<ByteSource> source, std::size_t max_line)
    : source_(std::move(source)), max_line_(max_line), chunk_(kChunkBytes) {}

void LineReader::resume(std::int64_t number, std::int64_t bytes) {
  source_->skip(bytes);
  number_ = number;
  bytes_ = bytes;
}

bool LineReader::fill() {
  at_ = filled_ = 0;
  // The first bytes are judged together, so a source that gives them one by one is asked again.
  do {
    const std::size_t n = source_->read(chunk_.data() + filled_, chunk_.size() - filled_);
    filled_ += n;
    if (n == 0) break;
  } while (bytes_ == 0 && filled_ < 8);
  if (bytes_ == 0) check_start();
  return at_ < filled_;
}

void LineReader::check_start() {
  at_ = check_text_start({chunk_.data(), filled_}, source_->path());
  bytes_ = static_cast<std::int64_t>(at_);
}

void LineReader::append(std::string& line, const char* from, std::size_t size) {
  too_long_ = too_long_ || size > max_line_ - line.size();
  if (too_long_)
    line.clear();
  else
    line.append(from, size);
}

bool LineReader::next(std::string& line) {
  line.clear();
  too_long_ = false;
  const std::int64_t before = bytes_;
  while (at_ < filled_ || fill()) {
    const char* from = chunk_.data() + at_;
    const void* end = std::memchr(from, '\n', filled_ - at_);
    const std::size_t size = end == nullptr
                                 ? filled_ - at_
                                 : static_cast<std::size_t>(static_cast<const char*>(end) - from);
    append(line, from, size);
    const std::size_t taken = size + (end == nullptr ? 0 : 1);
    at_ += taken;
    bytes_ += static_cast<std::int64_t>(taken);
    if (end != nullptr) break;
  }
  number_ += bytes_ > before ? 1 : 0;
  return bytes_ > before;
}

}  // namespace tessera
