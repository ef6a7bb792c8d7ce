#include <zlib.h>

#include <algorithm>
#include <vector>

#include "tessera/base/check.h"
#include "tessera/data/byte_source.h"

namespace tessera {
namespace {

constexpr std::size_t kGzipChunkBytes = std::size_t{1} << 17;
constexpr int kGzipOnly = 15 + 16;  // the largest window, and a gzip header rather than zlib's

class GzipSource : public ByteSource {
 public:
  explicit GzipSource(std::unique_ptr<ByteSource> compressed)
      : compressed_(std::move(compressed)), chunk_(kGzipChunkBytes) {
    check(::inflateInit2(&stream_, kGzipOnly) == Z_OK, "zlib cannot start: out of memory");
  }
  ~GzipSource() override { ::inflateEnd(&stream_); }
  GzipSource(const GzipSource&) = delete;
  GzipSource& operator=(const GzipSource&) = delete;

  std::size_t read(char* to, std::size_t room) override {
    room = std::min(room, kGzipChunkBytes);
    stream_.next_out = reinterpret_cast<Bytef*>(to);
    stream_.avail_out = static_cast<uInt>(room);
    while (stream_.avail_out == room && advance()) {
    }
    more_inside_ = stream_.avail_out == 0 && in_member_;
    return room - stream_.avail_out;
  }
  std::int64_t file_bytes() const override {
    return compressed_->file_bytes() - static_cast<std::int64_t>(stream_.avail_in);
  }
  const fs::path& path() const override { return compressed_->path(); }

 private:
  // False at the end of the file.
  bool advance() {
    if (stream_.avail_in == 0 && !more_inside_) {
      stream_.next_in = reinterpret_cast<Bytef*>(chunk_.data());
      stream_.avail_in = static_cast<uInt>(compressed_->read(chunk_.data(), chunk_.size()));
      if (stream_.avail_in == 0) {
        check_input(!in_member_ && file_bytes() > 0,
                    "'{}' is cut off: it ends at byte {} in the middle of its gzip data",
                    path().string(), file_bytes());
        return false;
      }
    }
    more_inside_ = false;
    if (!in_member_) ::inflateReset(&stream_);
    in_member_ = true;
    const int result = ::inflate(&stream_, Z_NO_FLUSH);
    if (result == Z_STREAM_END) in_member_ = false;
    check_input(result == Z_OK || result == Z_STREAM_END || result == Z_BUF_ERROR,
                "'{}' is damaged, or not gzip, at byte {}: {}", path().string(), file_bytes(),
                stream_.msg == nullptr ? "no memory" : stream_.msg);
    return true;
  }

  std::unique_ptr<ByteSource> compressed_;
  std::vector<char> chunk_;
  z_stream stream_{};
  bool in_member_ = false;
  bool more_inside_ = false;  // the last call may have stopped for want of room
};

}  // namespace

std::unique_ptr<ByteSource> gzip_source(std::unique_ptr<ByteSource> compressed) {
  return std::make_unique<GzipSource>(std::move(compressed));
}

}  // namespace tessera
