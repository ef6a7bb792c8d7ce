#include "tessera/data/pending_file.h"

#include "tessera/base/check.h"

namespace tessera {

PendingFile::PendingFile(const fs::path& path, const std::string& suffix)
    : path_(path), temporary_(path) {
  temporary_ += suffix;
  file_.emplace(temporary_);
}

PendingFile::~PendingFile() {
  std::error_code ignored;  // a destructor cannot report, and there may be nothing to remove
  if (!temporary_.empty()) fs::remove(temporary_, ignored);
}

void PendingFile::write(const void* data, std::size_t bytes) { file_->write(data, bytes); }

void PendingFile::close() {
  file_->sync();
  file_.reset();
}

void PendingFile::publish() {
  check(!file_, "'{}' must be closed before it is published", path_.string());
  rename_durably(temporary_, path_);
  temporary_.clear();
}

}  // namespace tessera
