#include "tessera/data/pending_file.h"

#include "tessera/base/check.h"

namespace tessera {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{1} << 20;

}  // namespace

PendingFile::PendingFile(const fs::path& path, const std::string& suffix)
    : path_(path), temporary_(path) {
  temporary_ += suffix;
  writer_.emplace(temporary_);
  buffer_.reserve(kBufferBytes);
}

PendingFile::~PendingFile() {
  std::error_code ignored;  // a destructor cannot report, and there may be nothing to remove
  if (!temporary_.empty()) fs::remove(temporary_, ignored);
}

void PendingFile::write(const void* data, std::size_t bytes) {
  if (buffer_.size() + bytes > kBufferBytes) flush();
  if (bytes >= kBufferBytes) {
    writer_->write(data, bytes);
    return;
  }
  const std::byte* from = static_cast<const std::byte*>(data);
  buffer_.insert(buffer_.end(), from, from + bytes);
}

void PendingFile::flush() {
  writer_->write(buffer_.data(), buffer_.size());
  buffer_.clear();
}

void PendingFile::close() {
  flush();
  writer_->close();
  writer_.reset();
}

void PendingFile::publish() {
  check(!writer_, "'{}' must be closed before it is published", path_.string());
  std::error_code error;
  fs::rename(temporary_, path_, error);
  check(!error, "cannot rename '{}' to '{}': {}", temporary_.string(), path_.string(),
        error.message());
  temporary_.clear();
  sync_path(folder_of(path_));
}

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

}  // namespace tessera
