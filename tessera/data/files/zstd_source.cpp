#include <zstd.h>
#include <zstd_errors.h>

#include "tessera/base/check.h"
#include "tessera/data/files/compressed_source.h"

namespace tessera {
namespace {

struct FreeContext {
  void operator()(ZSTD_DCtx* context) const { ::ZSTD_freeDCtx(context); }
};

class ZstdSource : public CompressedSource {
 public:
  explicit ZstdSource(std::unique_ptr<ByteSource> compressed)
      : CompressedSource(std::move(compressed), "zstd"), context_(::ZSTD_createDCtx()) {
    check(context_ != nullptr, "zstd cannot start: out of memory");
  }

 private:
  Step decompress(std::span<char> in, std::span<char> out, bool) override {
    ZSTD_inBuffer from{in.data(), in.size(), 0};
    ZSTD_outBuffer to{out.data(), out.size(), 0};
    const std::size_t result = ::ZSTD_decompressStream(context_.get(), &to, &from);
    // The library's own limit: such a file is whole, but would take memory beyond all bounds.
    check_input(::ZSTD_getErrorCode(result) != ZSTD_error_frameParameter_windowTooLarge,
                "'{0}' needs a zstd window of more than 128 MiB, the most that is read: compress "
                "it again without --long, or with at most --long=27 (zstd -dc --long=31 '{0}' | "
                "zstd > NEW.zst)",
                path().string());
    const bool failed = ::ZSTD_isError(result) != 0;
    return {from.pos, to.pos, result != 0, failed ? ::ZSTD_getErrorName(result) : nullptr};
  }

  std::unique_ptr<ZSTD_DCtx, FreeContext> context_;
};

}  // namespace

std::unique_ptr<ByteSource> zstd_source(std::unique_ptr<ByteSource> compressed) {
  return std::make_unique<ZstdSource>(std::move(compressed));
}

}  // namespace tessera
