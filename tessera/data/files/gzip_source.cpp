#include <zlib.h>

#include "tessera/base/check.h"
#include "tessera/data/files/compressed_source.h"

namespace tessera {
namespace {

constexpr int kGzipOnly = 15 + 16;  // the largest window, and a gzip header rather than zlib's

class GzipSource : public CompressedSource {
 public:
  explicit GzipSource(std::unique_ptr<ByteSource> compressed)
      : CompressedSource(std::move(compressed), "gzip") {
    check(::inflateInit2(&stream_, kGzipOnly) == Z_OK, "zlib cannot start: out of memory");
  }
  ~GzipSource() override { ::inflateEnd(&stream_); }
  GzipSource(const GzipSource&) = delete;
  GzipSource& operator=(const GzipSource&) = delete;

 private:
  Step decompress(std::span<char> in, std::span<char> out, bool begins) override {
    stream_.next_in = reinterpret_cast<Bytef*>(in.data());
    stream_.avail_in = static_cast<uInt>(in.size());
    stream_.next_out = reinterpret_cast<Bytef*>(out.data());
    stream_.avail_out = static_cast<uInt>(out.size());
    if (begins) ::inflateReset(&stream_);
    const int result = ::inflate(&stream_, Z_NO_FLUSH);
    const bool good = result == Z_OK || result == Z_STREAM_END || result == Z_BUF_ERROR;
    const char* reason = stream_.msg == nullptr ? "no memory" : stream_.msg;
    return {in.size() - stream_.avail_in, out.size() - stream_.avail_out, result != Z_STREAM_END,
            good ? nullptr : reason};
  }

  z_stream stream_{};
};

}  // namespace

std::unique_ptr<ByteSource> gzip_source(std::unique_ptr<ByteSource> compressed) {
  return std::make_unique<GzipSource>(std::move(compressed));
}

}  // namespace tessera
