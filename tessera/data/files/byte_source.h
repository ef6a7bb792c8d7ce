// The text of a plain or compressed file, read sequentially in fixed memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "tessera/base/files.h"

namespace tessera {

class ByteSource {
 public:
  virtual ~ByteSource() = default;

  /// Puts up to `room` bytes there; 0 means the end. InputError names the byte of the file where it
  /// is cut off or damaged.
  virtual std::size_t read(char* to, std::size_t room) = 0;
  /// Drops the next `bytes`; InputError when there are fewer.
  virtual void skip(std::int64_t bytes);
  /// How much of the file itself has been used, compressed as it is.
  virtual std::int64_t file_bytes() const = 0;
  virtual const fs::path& path() const = 0;
};

/// By the ending: .gz and .zst are decompressed, everything else is plain. InputError unless it is
/// a regular file that can be read.
std::unique_ptr<ByteSource> open_source(const fs::path& path);

std::unique_ptr<ByteSource> plain_source(const fs::path& path);
/// Of one or more members, one after the other.
std::unique_ptr<ByteSource> gzip_source(std::unique_ptr<ByteSource> compressed);
/// Of one or more frames, one after the other; windows of up to 128 MiB.
std::unique_ptr<ByteSource> zstd_source(std::unique_ptr<ByteSource> compressed);

}  // namespace tessera
