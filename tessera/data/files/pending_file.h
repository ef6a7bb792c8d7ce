// A file that is written under a temporary name and gets its real name only when it is complete, so
// that any number of processes may write the same one. If it never becomes complete, nothing is
// left behind; what a killed process leaves, the next one that writes the file removes.
#pragma once

#include <cstddef>
#include <optional>

#include "tessera/data/files/append_file.h"

namespace tessera {

class PendingFile {
 public:
  explicit PendingFile(const fs::path& path);
  ~PendingFile();
  PendingFile(const PendingFile&) = delete;
  PendingFile& operator=(const PendingFile&) = delete;

  /// Buffered: many small writes are cheap.
  void write(const void* data, std::size_t bytes);
  /// Puts everything on the disk and gives the file its real name, in the place of an older one.
  void publish();

 private:
  fs::path path_;
  fs::path temporary_;
  std::optional<AppendFile> file_;
};

/// Removes temporary files of `path` from writers that have exited: files without a holder of their
/// lock. Files that were written to within the last seconds are kept, since they may be about to be
/// locked. On file systems without locks, files that were not written to for a day are removed.
void remove_abandoned(const fs::path& path);

}  // namespace tessera
