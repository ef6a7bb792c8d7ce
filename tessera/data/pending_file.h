// A file that is written under a temporary name and gets its real name only when it is complete. If
// it never becomes complete, nothing is left behind.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "tessera/data/append_file.h"

namespace tessera {

class PendingFile {
 public:
  /// Creates `path` + `suffix`. Writers that may race for one path need different suffixes.
  explicit PendingFile(const fs::path& path, const std::string& suffix = ".tmp");
  ~PendingFile();
  PendingFile(const PendingFile&) = delete;
  PendingFile& operator=(const PendingFile&) = delete;

  const fs::path& path() const { return path_; }
  /// Buffered: many small writes are cheap.
  void write(const void* data, std::size_t bytes);
  /// Everything written is on the disk, still under the temporary name.
  void close();
  /// Renames a closed file to its real name, replacing an older one, and makes that durable.
  void publish();

 private:
  fs::path path_;
  fs::path temporary_;
  std::optional<AppendFile> file_;
};

}  // namespace tessera
