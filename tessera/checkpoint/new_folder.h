// A folder that is there whole or not at all: it is filled under a temporary name, and renamed when
// all of it is on disk. Nothing that is there already is ever replaced.
#pragma once

#include "tessera/base/files.h"

namespace tessera {

class NewFolder {
 public:
  /// InputError unless `target` is new, or an empty folder.
  explicit NewFolder(const fs::path& target);
  /// Removes what was not committed.
  ~NewFolder();
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  /// Where files are put.
  const fs::path& staging_dir() const { return staging_dir_; }
  void commit();

 private:
  fs::path target_;
  fs::path staging_dir_;
};

}  // namespace tessera
