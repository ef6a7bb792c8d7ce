// A file that grows at its end, can be made durable at any time, and be opened again at such a
// point.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tessera/base/files.h"

namespace tessera {

class AppendFile {
 public:
  /// Opens or creates the file and truncates it to `size`. InputError if it is shorter.
  explicit AppendFile(const fs::path& path, std::int64_t size = 0);
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  /// Buffered: many small writes are cheap.
  void write(const void* data, std::size_t bytes);
  /// Locks the file (flock) until it is closed or the process ends. Has no effect on a file system
  /// without locks.
  void lock();
  /// Everything written so far is on the disk.
  void sync();
  /// Including data in the buffer.
  std::int64_t size() const { return size_; }
  const fs::path& path() const { return path_; }

 private:
  void flush();
  void write_out(const std::byte* data, std::size_t bytes);

  fs::path path_;
  int fd_;
  std::int64_t size_;
  std::vector<std::byte> buffer_;
};

}  // namespace tessera
