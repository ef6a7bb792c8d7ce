#include "tessera/data/files/byte_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "tessera/base/check.h"

namespace tessera {
namespace {

class PlainSource : public ByteSource {
 public:
  // O_NONBLOCK: opening a pipe returns, and it is refused, instead of waiting for a writer.
  explicit PlainSource(const fs::path& path)
      : path_(path), fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    const int error = errno;
    check_input(fd_ >= 0, "cannot open '{}': {}", path_.string(), std::strerror(error));
    struct stat info {};
    if (::fstat(fd_, &info) == 0 && S_ISREG(info.st_mode)) return;
    ::close(fd_);
    fail_input("'{}' is not a regular file", path_.string());
  }
  ~PlainSource() override { ::close(fd_); }
  PlainSource(const PlainSource&) = delete;
  PlainSource& operator=(const PlainSource&) = delete;

  std::size_t read(char* to, std::size_t room) override {
    ssize_t n = -1;
    do n = ::read(fd_, to, room);
    while (n < 0 && errno == EINTR);
    const int error = errno;
    check_input(n >= 0, "cannot read '{}' at byte {}: {}", path_.string(), bytes_,
                std::strerror(error));
    bytes_ += n;
    return static_cast<std::size_t>(n);
  }

  void skip(std::int64_t bytes) override {
    struct stat info {};
    const bool there = ::fstat(fd_, &info) == 0 && info.st_size - bytes_ >= bytes;
    check_input(there && ::lseek(fd_, bytes_ + bytes, SEEK_SET) >= 0,
                "'{}' became shorter than {} bytes", path_.string(), bytes_ + bytes);
    bytes_ += bytes;
  }

  std::int64_t file_bytes() const override { return bytes_; }
  const fs::path& path() const override { return path_; }

 private:
  fs::path path_;
  int fd_;
  std::int64_t bytes_ = 0;
};

}  // namespace

void ByteSource::skip(std::int64_t bytes) {
  std::vector<char> dropped(std::size_t{1} << 16);
  while (bytes > 0) {
    const std::size_t n =
        read(dropped.data(), std::min(dropped.size(), static_cast<std::size_t>(bytes)));
    check_input(n > 0, "'{}' ends {} bytes of text earlier than before", path().string(), bytes);
    bytes -= static_cast<std::int64_t>(n);
  }
}

std::unique_ptr<ByteSource> plain_source(const fs::path& path) {
  return std::make_unique<PlainSource>(path);
}

std::unique_ptr<ByteSource> open_source(const fs::path& path) {
  if (path.extension() == ".gz") return gzip_source(plain_source(path));
  if (path.extension() == ".zst") return zstd_source(plain_source(path));
  return plain_source(path);
}

}  // namespace tessera
