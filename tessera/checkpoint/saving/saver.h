// Saves checkpoints of a session. Each rank writes its own slices; rank 0 makes the staging
// directory, and turns it into a checkpoint when all ranks have written. In the background that
// goes on beside training:
//
//   request    all ranks: slices are copied to staging memory, a thread writes them to the folder
//   advance    all ranks, when all have written: rank 0 commits, on a thread, too
//
// A failure, such as a full disk, is logged and leaves the checkpoints that are there: training can
// go on, and the next save starts anew. Staging memory that holds less than all slices is filled
// and written in waves, and the request takes until the last wave is in it.
#pragma once

#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/checkpoint/format/checkpoint_folder.h"
#include "tessera/checkpoint/saving/staging.h"

namespace tessera {

struct SaveOptions {
  fs::path folder;
  bool with_optimizer = true;
  bool background = false;
  std::int64_t staging_bytes = 0;  ///< at most; 0: as many as all slices need
  Retention retention = {};
};

/// The contents of a checkpoint besides tensors. Those of rank 0 are saved.
struct SaveContents {
  std::int64_t iteration = 0;
  std::string state;                                       ///< an object of JSON
  std::vector<std::pair<std::string, std::string>> files;  ///< by name, with their contents
};

class Saver {
 public:
  /// Gets every message on rank 0, on the thread that calls `request` or `advance`.
  using Say = std::function<void(const std::string& message)>;

  /// InputError if a slice is larger than the limit of the staging memory.
  Saver(Session& session, const SaveOptions& options, Say say);
  /// Waits for threads; a staging directory that is not committed is removed when the next run
  /// starts.
  ~Saver();
  Saver(const Saver&) = delete;
  Saver& operator=(const Saver&) = delete;

  /// All ranks together. Returns when the state may change again. Without `background` the
  /// checkpoint is committed then, or has failed.
  void request(const SaveContents& contents);
  /// Whether a save is in progress; equal on all ranks.
  bool pending() const { return stage_ != Stage::idle; }
  /// Whether this rank has still to do for it.
  bool busy() const;
  /// All ranks together, when none is busy, while one is pending: the next stage begins.
  void advance();
  /// All ranks together: waits until nothing is pending.
  void finish();
  /// The newest iteration that this object has committed; -1: none. Equal on all ranks.
  std::int64_t committed() const { return committed_; }

 private:
  enum class Stage { idle, writing, committing };
  struct Outcome {
    bool good = true;
    std::string text;  ///< for rank 0; or why not
  };

  static Outcome guarded(const std::function<std::string()>& work);
  std::string write_slices(const fs::path& staging_dir);
  std::string commit();
  void begin_commit();
  void end_commit();
  /// The text of rank 0's outcome; nothing when a rank has failed, which is logged.
  std::optional<std::string> share(const Outcome& own);
  void start(std::function<std::string()> work);

  Session& session_;
  SaveOptions options_;
  Say say_;
  Staging staging_;
  SaveContents contents_;
  fs::path staging_dir_;
  Stage stage_ = Stage::idle;
  std::future<Outcome> work_;  ///< of the stage, on this rank; none: nothing to do
  std::int64_t committed_ = -1;
};

}  // namespace tessera
