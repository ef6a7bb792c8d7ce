#include "tessera/checkpoint/new_folder.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "tessera/base/check.h"

namespace tessera {
namespace {

// Without "..", links, or a slash behind it, so that the name beside it is known.
fs::path plain(const fs::path& path) {
  std::error_code error;
  fs::path whole = fs::weakly_canonical(fs::absolute(path), error);
  check_input(!error, "'{}' cannot be used: {}", path.string(), error.message());
  return whole.has_filename() ? whole : whole.parent_path();
}

}  // namespace

NewFolder::NewFolder(const fs::path& target) : target_(plain(target)) {
  std::error_code error;
  if (fs::exists(target_, error)) {
    check_input(fs::is_directory(target_, error), "'{}' is not a folder", target_.string());
    const bool empty = fs::is_empty(target_, error);
    check_input(!error, "'{}' cannot be read: {}", target_.string(), error.message());
    check_input(empty, "'{}' is not empty, and nothing is overwritten: give a new folder",
                target_.string());
  }
  make_folders(target_.parent_path());
  staging_dir_ = target_.string() + temporary_suffix();
  const bool made = fs::create_directory(staging_dir_, error);
  check_input(made && !error, "cannot make the folder '{}': {}", staging_dir_.string(),
              error.message());
}

NewFolder::~NewFolder() {
  std::error_code ignored;
  if (!staging_dir_.empty()) fs::remove_all(staging_dir_, ignored);
}

void NewFolder::commit() {
  sync_path(staging_dir_);
  // Replaces an empty folder, and refuses one that somebody has put something into meanwhile.
  const bool renamed = ::rename(staging_dir_.c_str(), target_.c_str()) == 0;
  check(renamed, "cannot rename '{}' to '{}': {}", staging_dir_.string(), target_.string(),
        std::strerror(errno));
  staging_dir_.clear();
  sync_path(target_.parent_path());
}

}  // namespace tessera
