// What a machine forgets that loses its power: every change since the last fsync of the file, or of
// the folder that names it. Changes are noted as they happen, and undone, the last one first.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <mutex>
#include <string>
#include <vector>

namespace tessera::test {

namespace fs = std::filesystem;

/// Where an open file lies.
inline std::string path_of(int fd) {
  std::error_code error;
  return fs::read_symlink("/proc/self/fd/" + std::to_string(fd), error).string();
}

class UnsyncedChanges {
 public:
  /// Called before the write, which is at the end of the file.
  void wrote(const std::string& path) {
    std::error_code unknown;
    const std::uintmax_t size = fs::file_size(path, unknown);
    add({Kind::data, path, "", unknown ? 0 : size});
  }
  void made(const std::string& path) { add({Kind::entry, path, "", 0}); }
  void renamed(const std::string& from, const std::string& to) { add({Kind::name, to, from, 0}); }
  void exchanged(const std::string& a, const std::string& b) { add({Kind::both_names, a, b, 0}); }

  /// A folder's fsync keeps the names in it, a file's its bytes.
  void synced(const std::string& path) {
    const std::lock_guard lock(mutex_);
    std::erase_if(changes_, [&](const Change& change) {
      if (change.kind == Kind::data) return change.path == path;
      return fs::path(change.path).parent_path() == path;
    });
  }

  void forget() {
    const std::lock_guard lock(mutex_);
    std::error_code error;
    for (; !changes_.empty(); changes_.pop_back()) {
      const auto& [kind, path, other, size] = changes_.back();
      if (kind == Kind::data) fs::resize_file(path, size, error);
      if (kind == Kind::entry) fs::remove_all(path, error);
      if (kind == Kind::name) fs::rename(path, other, error);
      if (kind == Kind::both_names)
        ::renameat2(AT_FDCWD, path.c_str(), AT_FDCWD, other.c_str(), RENAME_EXCHANGE);
    }
  }

 private:
  enum class Kind { data, entry, name, both_names };
  struct Change {
    Kind kind;
    std::string path, other;
    std::uintmax_t size;  // of the file before it was written
  };
  void add(Change change) {
    const std::lock_guard lock(mutex_);
    changes_.push_back(std::move(change));
  }

  std::mutex mutex_;
  std::vector<Change> changes_;
};

}  // namespace tessera::test
