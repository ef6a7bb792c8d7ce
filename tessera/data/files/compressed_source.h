// The common part of readers for .gz and .zst files: chunks of the file go in, text comes out, and
// members (or frames) follow one another.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "tessera/data/files/byte_source.h"

namespace tessera {

class CompressedSource : public ByteSource {
 public:
  std::size_t read(char* to, std::size_t room) override;
  std::int64_t file_bytes() const override {
    return compressed_->file_bytes() - static_cast<std::int64_t>(in_.size());
  }
  const fs::path& path() const override { return compressed_->path(); }

 protected:
  struct Step {
    std::size_t used, made;  ///< bytes of the file, and of text
    bool inside;             ///< a member is not at its end
    const char* error;       ///< null: there is none
  };

  CompressedSource(std::unique_ptr<ByteSource> compressed, const char* format)
      : compressed_(std::move(compressed)), format_(format), chunk_(kChunk) {}
  /// `begins`: a new member does.
  virtual Step decompress(std::span<char> in, std::span<char> out, bool begins) = 0;

 private:
  static constexpr std::size_t kChunk = std::size_t{1} << 17;

  /// How much text was made; nothing at the end of the file.
  std::optional<std::size_t> advance(std::span<char> out);

  std::unique_ptr<ByteSource> compressed_;
  const char* format_;
  std::vector<char> chunk_;
  std::span<char> in_;  // of the chunk, not yet used
  bool inside_ = false;
  bool more_inside_ = false;  // the last step may have stopped for want of room
};

}  // namespace tessera
