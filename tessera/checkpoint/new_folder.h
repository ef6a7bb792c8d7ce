// A folder that is created completely or not at all: it is filled under a temporary name and
// renamed when everything is on disk. Existing files are never replaced.
#pragma once

#include "tessera/base/files.h"

namespace tessera {

class NewFolder {
 public:
  /// InputError unless `target` is new, or an empty folder.
  explicit NewFolder(const fs::path& target);
  /// Removes an uncommitted folder.
  ~NewFolder();
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  /// Where files are written before the commit.
  const fs::path& staging_dir() const { return staging_dir_; }
  void commit();

 private:
  fs::path target_;
  fs::path staging_dir_;
};

}  // namespace tessera
