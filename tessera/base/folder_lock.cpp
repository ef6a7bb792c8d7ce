#include "tessera/base/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "tessera/base/check.h"
#include "tessera/base/log.h"

namespace tessera {

FolderLock::FolderLock(const fs::path& folder)
    : fd_(::open((folder / ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {
  const int locked = fd_ >= 0 ? ::flock(fd_, LOCK_EX | LOCK_NB) : -1;
  const int error = errno;
  if (locked == 0) return;
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
  check_input(error != EWOULDBLOCK,
              "another run is writing into '{}': wait for it, stop it, or give another folder",
              folder.string());
  // Some file systems have no locks: then the user is the one to take care.
  log_warning("'{}' cannot be locked against other runs: {}", folder.string(),
              std::strerror(error));
}

FolderLock::~FolderLock() {
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace tessera
