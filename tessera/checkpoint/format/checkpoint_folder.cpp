#include "tessera/checkpoint/format/checkpoint_folder.h"

#include <fcntl.h>
#include <stdio.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "tessera/base/check.h"
#include "tessera/base/log.h"

namespace tessera {
namespace {

constexpr const char* kLatest = "latest_checkpointed_iteration.txt";
constexpr std::string_view kPrefix = "iter_";
constexpr std::string_view kStagingEnding = ".tmp-";
constexpr std::string_view kOld = ".old-";    // until another is in its place
constexpr std::string_view kGone = ".gone-";  // being removed

bool rename_as(const fs::path& from, const fs::path& to, unsigned flags) {
  return ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), flags) == 0;
}

void rename_folder(const fs::path& from, const fs::path& to) {
  const bool renamed = ::rename(from.c_str(), to.c_str()) == 0;
  check(renamed, "cannot rename '{}' to '{}': {}", from.string(), to.string(),
        std::strerror(errno));
}

fs::path with_ending(const fs::path& path, std::string_view ending) {
  return path.parent_path() / (path.filename().string() + std::string(ending) +
                               temporary_suffix().substr(kStagingEnding.size()));
}

// Takes a checkpoint out of sight first, so that what is half removed is never taken for one.
void remove_checkpoint(const fs::path& path) {
  const fs::path gone = with_ending(path, kGone);
  rename_folder(path, gone);
  sync_path(path.parent_path());
  std::error_code error;
  fs::remove_all(gone, error);
  check(!error, "cannot remove '{}': {}", gone.string(), error.message());
}

// One that is there already is exchanged in one step where the file system can do that (NFS
// cannot); otherwise it steps aside, and comes back when the new one cannot be put in its place, or
// when the next run finds the place empty. Returns where it is now; empty: there was none.
fs::path move_into_place(const fs::path& staging_dir, const fs::path& place) {
  std::error_code error;
  if (!fs::exists(place, error)) {
    rename_folder(staging_dir, place);
    return {};
  }
  if (rename_as(staging_dir, place, RENAME_EXCHANGE)) return staging_dir;
  fs::path old = with_ending(place, kOld);
  rename_folder(place, old);
  try {
    rename_folder(staging_dir, place);
  } catch (const Error&) {
    fs::rename(old, place, error);
    throw;
  }
  return old;
}

}  // namespace

fs::path iteration_folder(const fs::path& folder, std::int64_t iteration) {
  return folder / fmt::format("{}{:07}", kPrefix, iteration);
}

std::vector<std::int64_t> iterations_in(const fs::path& folder) {
  std::vector<std::int64_t> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kPrefix)) continue;
    std::int64_t iteration = -1;
    const char* begin = name.data() + kPrefix.size();
    const char* end = name.data() + name.size();
    const auto [stopped, wrong] = std::from_chars(begin, end, iteration);
    if (wrong == std::errc() && stopped == end && iteration >= 0 &&
        iteration_folder(folder, iteration).filename() == name)
      found.push_back(iteration);
  }
  std::sort(found.begin(), found.end());
  return found;
}

fs::path create_staging_dir(const fs::path& folder, std::int64_t iteration) {
  make_folders(folder);
  fs::path staging_dir = with_ending(iteration_folder(folder, iteration), kStagingEnding);
  std::error_code error;
  fs::create_directory(staging_dir, error);
  check(!error, "cannot make the folder '{}': {}", staging_dir.string(), error.message());
  return staging_dir;
}

std::string commit_staging_dir(const fs::path& staging_dir, const fs::path& folder,
                               const Manifest& manifest) {
  write_file_atomically(staging_dir / kManifestFile,
                        manifest_text(manifest));  // syncs the staging directory, too
  const fs::path replaced =
      move_into_place(staging_dir, iteration_folder(folder, manifest.iteration));
  try {
    sync_path(folder);
  } catch (const Error& error) {
    return fmt::format("checkpoint {} is in its place, but: {}", manifest.iteration, error.what());
  }
  if (!replaced.empty()) remove_staging_dir(replaced);  // not before its place is safe
  try {
    write_file_atomically(folder / kLatest, std::to_string(manifest.iteration) + "\n");
  } catch (const Error& error) {  // a hint for people: nothing of ours reads it
    log_warning("checkpoint {} is in its place, but: {}", manifest.iteration, error.what());
  }
  return "";
}

void remove_staging_dir(const fs::path& staging_dir) noexcept {
  std::error_code ignored;
  fs::remove_all(staging_dir, ignored);
}

void remove_all_staging_dirs(const fs::path& folder) {
  std::vector<fs::path> left;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (entry.path().filename().string().starts_with(kPrefix)) left.push_back(entry.path());
  for (const fs::path& path : left) {
    const std::string name = path.filename().string();
    const std::size_t old = name.find(kOld);
    const fs::path place = folder / name.substr(0, old);
    if (old != std::string::npos && !fs::exists(place, error))
      rename_folder(path, place);
    else if (old != std::string::npos || name.find(kStagingEnding) != std::string::npos ||
             name.find(kGone) != std::string::npos)
      remove_staging_dir(path);
  }
}

std::vector<std::int64_t> surplus(const std::vector<std::int64_t>& iterations,
                                  const Retention& retention) {
  std::vector<std::int64_t> going;
  if (retention.keep_last == 0) return going;
  const auto count = static_cast<std::int64_t>(iterations.size());
  for (std::int64_t i = 0; i + retention.keep_last < count; ++i) {
    const std::int64_t iteration = iterations[static_cast<std::size_t>(i)];
    if (retention.keep_every == 0 || iteration % retention.keep_every != 0)
      going.push_back(iteration);
  }
  return going;
}

void remove_surplus(const fs::path& folder, const Retention& retention, std::int64_t committed) {
  std::vector<std::int64_t> iterations = iterations_in(folder);
  std::erase_if(iterations, [&](std::int64_t iteration) { return iteration > committed; });
  for (const std::int64_t iteration : surplus(iterations, retention))
    remove_checkpoint(iteration_folder(folder, iteration));
}

}  // namespace tessera
