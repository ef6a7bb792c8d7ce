// Prevents two runs from writing into one folder.
#pragma once

#include "tessera/base/files.h"

namespace tessera {

/// Held from construction to destruction; the system releases it when the process dies. The file
/// ".lock" that remains in the folder has no meaning by itself.
class FolderLock {
 public:
  /// InputError if another process, or another object of this one, holds the lock.
  explicit FolderLock(const fs::path& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  /// False on a file system without locks.
  bool held() const { return fd_ >= 0; }

 private:
  int fd_;
};

}  // namespace tessera
