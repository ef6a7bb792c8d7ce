#include "tessera/train/output_paths.h"

#include "tessera/base/check.h"
#include "tessera/checkpoint/checkpoint.h"
#include "tessera/observe/jsonl_sink.h"
#include "tessera/observe/profile.h"
#include "tessera/observe/trace_file.h"
#include "tessera/train/dump_step.h"

namespace tessera {
namespace {

// What would be newer than the run's own: the next start takes the newest checkpoint.
void check_none_is_newer(const TrainOptions& options) {
  const std::vector<std::int64_t> all = iterations_in(options.save);
  if (all.empty()) return;
  check_input(
      !options.finetune,
      "--finetune starts a new run, and the folder has the checkpoints of the old one: save "
      "to another folder");
  check_input(options.ckpt_step < 0 || all.back() <= options.ckpt_step,
              "--ckpt-step {}: the folder has a newer checkpoint, of iteration {}, which the next "
              "start would take: move it away, drop --ckpt-step, or save to another folder",
              options.ckpt_step, all.back());
}

// A new run must not grow into an old one.
void check_own_folder(const TrainOptions& options) {
  check_folder_can_be(options.save);
  std::error_code error;
  if (!options.load.empty() && fs::equivalent(options.save, options.load, error))
    return check_none_is_newer(options);
  check_input(
      !holds_checkpoints(options.save),
      "the folder holds the checkpoints of another run: give --load {} to go on with it, or "
      "another folder",
      options.save);
}

// Paths that cannot be written are found now, before anything is, and not at the first save. Each
// rank checks what it writes itself: it may be on a machine of its own.
void check_output_paths(const TrainOptions& options, int rank) {
  const auto check_place = [](const char* flag, const std::string& value, const auto& check) {
    if (value.empty()) return;
    try {
      check();
    } catch (const InputError& error) {
      fail_input("--{} {}: {}", flag, value, error.what());
    }
  };
  if (is_profiled(options, rank)) {
    const std::string file = profile_file(options, rank);
    check_place("profile-file", file, [&] { check_trace_place(file); });
  }
  if (rank > 0) return;
  check_place("dump-step", options.dump_step, [&] { StepDump::check_place(options.dump_step); });
  check_place("save", options.save, [&] { check_own_folder(options); });
  check_place("metrics-file", options.metrics_file,
              [&] { JsonlSink::check_place(options.metrics_file); });
}

std::unique_ptr<FolderLock> lock_folder(const fs::path& folder) {
  make_folders(folder);
  auto lock = std::make_unique<FolderLock>(folder);
  if (lock->held()) remove_all_staging_dirs(folder);
  return lock;
}

}  // namespace

std::unique_ptr<FolderLock> acquire_output_paths(const TrainOptions& options, const Rank& rank) {
  check_profiled_ranks(options, rank);
  check_output_paths(options, rank.rank);
  rank.world->barrier_without_timeout();  // nobody begins to work where another has no place
  std::unique_ptr<FolderLock> lock;
  if (rank.rank == 0 && !options.save.empty()) lock = lock_folder(options.save);
  rank.world->barrier_without_timeout();
  return lock;
}

}  // namespace tessera
