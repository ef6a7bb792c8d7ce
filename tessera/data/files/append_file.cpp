#include "tessera/data/files/append_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "tessera/base/check.h"

namespace tessera {
namespace {

constexpr std::size_t kAppendBytes = std::size_t{1} << 18;

std::string reason() { return std::strerror(errno); }

}  // namespace

AppendFile::AppendFile(const fs::path& path, std::int64_t size)
    : path_(path),
      fd_(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_APPEND, 0644)),
      size_(size) {
  check(fd_ >= 0, "cannot create '{}': {}", path_.string(), reason());
  try {
    struct stat info {};
    const bool known = ::fstat(fd_, &info) == 0;
    check(known, "cannot examine '{}': {}", path_.string(), reason());
    check_input(info.st_size >= size, "'{}' has {} bytes, but {} were written: it was changed",
                path_.string(), info.st_size, size);
    const bool cut = info.st_size == size || ::ftruncate(fd_, size) == 0;
    check(cut, "cannot shorten '{}' to {} bytes: {}", path_.string(), size, reason());
    buffer_.reserve(kAppendBytes);
  } catch (...) {
    ::close(fd_);
    throw;
  }
}

AppendFile::~AppendFile() { ::close(fd_); }

void AppendFile::write(const void* data, std::size_t bytes) {
  if (buffer_.size() + bytes > kAppendBytes) flush();
  const std::byte* from = static_cast<const std::byte*>(data);
  if (bytes >= kAppendBytes)
    write_out(from, bytes);
  else
    buffer_.insert(buffer_.end(), from, from + bytes);
  size_ += static_cast<std::int64_t>(bytes);
}

void AppendFile::lock() { static_cast<void>(::flock(fd_, LOCK_EX | LOCK_NB)); }

void AppendFile::flush() {
  write_out(buffer_.data(), buffer_.size());
  buffer_.clear();
}

void AppendFile::write_out(const std::byte* data, std::size_t bytes) {
  while (bytes > 0) {
    const ssize_t n = ::write(fd_, data, bytes);
    if (n < 0 && errno == EINTR) continue;
    check(n > 0, "cannot write '{}': {}", path_.string(), reason());
    data += n;
    bytes -= static_cast<std::size_t>(n);
  }
}

void AppendFile::sync() {
  flush();
  const bool synced = ::fsync(fd_) == 0;
  check(synced, "cannot fsync '{}': {}", path_.string(), reason());
}

}  // namespace tessera
