// The folder that a run saves its checkpoints into.
//
//   <folder>/latest_checkpointed_iteration.txt   the newest one: a hint, for people and tools
//   <folder>/iter_0000100/                       a checkpoint, which is whole: it has its manifest
//   <folder>/iter_0000200.tmp-4f1c09d2/          a staging directory: being written, or cut off
//
// A staging directory becomes a checkpoint by one rename, after all of its files were synced to
// disk, the manifest last. So after a crash at any moment the old or the new one is there whole.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tessera/base/files.h"
#include "tessera/checkpoint/format/manifest.h"

namespace tessera {

constexpr const char* kManifestFile = "manifest.json";
constexpr const char* kConfigFile = "config.yaml";

fs::path iteration_folder(const fs::path& folder, std::int64_t iteration);

/// The iterations of the checkpoints in the folder, by their names, in ascending order.
std::vector<std::int64_t> iterations_in(const fs::path& folder);

/// Creates an empty staging directory. Other ranks may have to create it again, since another
/// machine may not see it yet.
fs::path create_staging_dir(const fs::path& folder, std::int64_t iteration);

/// Makes the staging directory a checkpoint. All of its files but the manifest must be there and
/// synced. Replaces a checkpoint of the same iteration. Returns why a crash of the machine may not
/// find it in its place, where it is now; empty: it will.
std::string commit_staging_dir(const fs::path& staging_dir, const fs::path& folder,
                               const Manifest& manifest);

/// Never throws: on a full disk it makes room for the next try.
void remove_staging_dir(const fs::path& staging_dir) noexcept;

/// Removes staging directories of interrupted saves, and restores a checkpoint that was being
/// replaced by one. Only for the holder of the folder's lock.
void remove_all_staging_dirs(const fs::path& folder);

/// Which checkpoints stay. With neither, all do.
struct Retention {
  std::int64_t keep_last = 0;   ///< the newest ones; 0: all
  std::int64_t keep_every = 0;  ///< also keep iterations that are a multiple of this; 0: no others
};

/// The iterations that may be removed, of ascending ones: never the last.
std::vector<std::int64_t> surplus(const std::vector<std::int64_t>& iterations,
                                  const Retention& retention);

/// Removes checkpoints that may be removed and are not newer than `committed`, which was just
/// written.
void remove_surplus(const fs::path& folder, const Retention& retention, std::int64_t committed);

}  // namespace tessera
