#include "tessera/data/files/pending_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>

namespace tessera {
namespace {

constexpr std::chrono::seconds kUntilLocked{5};
constexpr std::chrono::hours kWithoutLocks{24};

enum class Owner { lives, gone, unknown };

Owner owner_of(const fs::path& temporary) {
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return Owner::unknown;
  const bool locked = ::flock(fd, LOCK_EX | LOCK_NB) == 0;
  const bool held = !locked && errno == EWOULDBLOCK;
  ::close(fd);
  return locked ? Owner::gone : held ? Owner::lives : Owner::unknown;
}

bool is_abandoned(const fs::path& temporary) {
  std::error_code gone;
  const auto age = fs::file_time_type::clock::now() - fs::last_write_time(temporary, gone);
  if (gone || age < kUntilLocked) return false;
  const Owner owner = owner_of(temporary);
  return owner == Owner::gone || (owner == Owner::unknown && age > kWithoutLocks);
}

}  // namespace

void remove_abandoned(const fs::path& path) {
  const std::string start = path.filename().string() + ".tmp-";
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_of(path))) {
    if (!entry.path().filename().string().starts_with(start)) continue;
    std::error_code ignored;  // another one may do the same
    if (is_abandoned(entry.path())) fs::remove(entry.path(), ignored);
  }
}

PendingFile::PendingFile(const fs::path& path) : path_(path) {
  remove_abandoned(path);
  fs::path temporary = path;
  temporary += temporary_suffix();
  file_.emplace(temporary);
  temporary_ = temporary;
  file_->lock();
}

PendingFile::~PendingFile() {
  std::error_code ignored;  // a destructor cannot report, and there may be nothing to remove
  if (!temporary_.empty()) fs::remove(temporary_, ignored);
}

void PendingFile::write(const void* data, std::size_t bytes) { file_->write(data, bytes); }

void PendingFile::publish() {
  file_->sync();
  rename_durably(temporary_, path_);  // before it is closed, and the lock with it
  temporary_.clear();
  file_.reset();
}

}  // namespace tessera
