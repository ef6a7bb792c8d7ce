// Keeps two runs from writing into one folder.
#pragma once

#include "tessera/base/files.h"

namespace tessera {

/// Held from construction to destruction, and let go by the system when the process dies, however
/// it does. The file ".lock" that it leaves in the folder means nothing by itself.
class FolderLock {
 public:
  /// InputError when another process, or another object of this one, holds the folder.
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
