#include <zstd.h>

#include <algorithm>
#include <vector>

#include "tessera/base/check.h"
#include "tessera/data/byte_source.h"

namespace tessera {
namespace {

struct FreeContext {
  void operator()(ZSTD_DCtx* context) const { ::ZSTD_freeDCtx(context); }
};

class ZstdSource : public ByteSource {
 public:
  explicit ZstdSource(std::unique_ptr<ByteSource> compressed)
      : compressed_(std::move(compressed)),
        chunk_(::ZSTD_DStreamInSize()),
        context_(::ZSTD_createDCtx()) {
    check(context_ != nullptr, "zstd cannot start: out of memory");
  }

  std::size_t read(char* to, std::size_t room) override {
    ZSTD_outBuffer out{to, room, 0};
    while (out.pos == 0 && advance(out)) {
    }
    more_inside_ = out.pos == out.size && in_frame_;
    return out.pos;
  }
  std::int64_t file_bytes() const override {
    return compressed_->file_bytes() - static_cast<std::int64_t>(in_.size - in_.pos);
  }
  const fs::path& path() const override { return compressed_->path(); }

 private:
  // False at the end of the file.
  bool advance(ZSTD_outBuffer& out) {
    if (in_.pos == in_.size && !more_inside_) {
      in_ = {chunk_.data(), compressed_->read(chunk_.data(), chunk_.size()), 0};
      if (in_.size == 0) {
        check_input(!in_frame_ && file_bytes() > 0,
                    "'{}' is cut off: it ends at byte {} in the middle of its zstd data",
                    path().string(), file_bytes());
        return false;
      }
    }
    more_inside_ = false;
    const std::size_t result = ::ZSTD_decompressStream(context_.get(), &out, &in_);
    check_input(::ZSTD_isError(result) == 0, "'{}' is damaged, or not zstd, at byte {}: {}",
                path().string(), file_bytes(), ::ZSTD_getErrorName(result));
    in_frame_ = result != 0;
    return true;
  }

  std::unique_ptr<ByteSource> compressed_;
  std::vector<char> chunk_;
  std::unique_ptr<ZSTD_DCtx, FreeContext> context_;
  ZSTD_inBuffer in_{nullptr, 0, 0};
  bool in_frame_ = false;
  bool more_inside_ = false;  // the last call may have stopped for want of room
};

}  // namespace

std::unique_ptr<ByteSource> zstd_source(std::unique_ptr<ByteSource> compressed) {
  return std::make_unique<ZstdSource>(std::move(compressed));
}

}  // namespace tessera
