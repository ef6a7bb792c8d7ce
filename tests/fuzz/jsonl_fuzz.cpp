// Feeds arbitrary bytes to the readers of JSON lines: plain, as gzip and as zstd (the first byte
// chooses). They must refuse them with an InputError, or give lines that are the same when the
// reading is interrupted behind one and taken up again.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/check.h"
#include "tessera/data/files/line_reader.h"
#include "tessera/data/preprocess/json_texts.h"

namespace {

using namespace tessera;

constexpr std::size_t kMostLines = 2000;  // a few bytes can be decompressed to very many

class MemorySource : public ByteSource {
 public:
  explicit MemorySource(std::string_view bytes) : bytes_(bytes) {}
  std::size_t read(char* to, std::size_t room) override {
    const std::size_t n = std::min(room, bytes_.size() - at_);
    std::memcpy(to, bytes_.data() + at_, n);
    at_ += n;
    return n;
  }
  std::int64_t file_bytes() const override { return static_cast<std::int64_t>(at_); }
  const fs::path& path() const override { return path_; }

 private:
  fs::path path_ = "fuzz";
  std::string_view bytes_;
  std::size_t at_ = 0;
};

std::unique_ptr<ByteSource> source_of(std::uint8_t kind, std::string_view bytes) {
  auto plain = std::make_unique<MemorySource>(bytes);
  if (kind % 4 == 1) return gzip_source(std::move(plain));
  if (kind % 4 == 2) return zstd_source(std::move(plain));
  return plain;
}

struct Line {
  std::string text;
  std::int64_t number;
  std::int64_t bytes;
  bool operator==(const Line&) const = default;
};

std::vector<Line> lines_behind(LineReader& reader) {
  std::vector<Line> lines;
  std::string text;
  while (lines.size() < kMostLines && reader.next(text)) {
    if (reader.too_long() && !text.empty()) std::abort();
    lines.push_back({text, reader.number(), reader.bytes()});
  }
  return lines;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::size_t longest = (data[0] & 4) != 0 ? 16 : 1 << 20;
  try {
    LineReader reader(source_of(data[0], bytes), longest);
    const std::vector<Line> lines = lines_behind(reader);
    if (!lines.empty() && lines.size() < kMostLines) {
      const std::size_t middle = lines.size() / 2;
      LineReader again(source_of(data[0], bytes), longest);
      again.resume(lines[middle].number, lines[middle].bytes);
      if (!std::ranges::equal(lines_behind(again), std::span(lines).subspan(middle + 1)))
        std::abort();
    }
    JsonTexts json({"text", "title"});
    for (const Line& line : lines) {
      try {
        json.read(line.text, "line");
        if (json.texts().size() != 2) std::abort();
      } catch (const InputError&) {
        continue;  // refused, as most lines must be
      }
    }
  } catch (const InputError&) {
    return 0;  // refused
  }
  return 0;
}
