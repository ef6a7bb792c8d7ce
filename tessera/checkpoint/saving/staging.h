// Copies of the slices that a rank saves, in a bounded amount of host memory, passed from the
// training thread to the writing thread.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "tessera/engine/session.h"
#include "tessera/optim/kept_slices.h"

namespace tessera {

/// One of the files that a rank writes.
enum class SaveFile { model, optimizer };

struct StagedSlice {
  SaveFile file = SaveFile::model;
  std::string name;  ///< of the tensor, with its state in front: exp_avg.layers.0...
  KeptSlice kept;
  ParameterBlock block;
};

class Staging {
 public:
  struct Limit {
    std::int64_t bytes = 0;  ///< of its memory; 0: as much as all slices need
    bool strict = true;      ///< InputError for a slice that needs more; or it gets what it needs
  };
  /// `copies` false: slices are read where they are, by a thread that is waited for.
  Staging(Session& session, bool with_optimizer, Limit limit, bool copies);

  /// All that this rank saves, in the order in which it is written: larger elements first within a
  /// file.
  const std::vector<StagedSlice>& slices() const { return slices_; }
  std::int64_t capacity() const { return capacity_; }

  /// Allocates the memory now rather than when it is first needed, and has the system give its
  /// pages.
  void prepare();
  /// Called by the training thread: brings wave after wave in, and waits for room in between.
  /// Returns when all are in, or the writer has given up.
  void fill();
  /// Called by the writing thread: calls write(slice number, its data) for all slices in order.
  void drain(const std::function<void(std::size_t, const ConstView&)>& write);
  /// Makes ready for the next save.
  void reset();

 private:
  struct Run {                ///< a range of a block that is copied at once
    std::size_t block_slice;  ///< the slice whose block it is
    Range range;              ///< elements of the block
    std::int64_t at;          ///< its first byte in the memory
  };
  struct Wave {
    std::size_t begin = 0, end = 0;  ///< slices
    std::vector<Run> runs;
    std::vector<std::size_t> run_of;  ///< by slice
    std::int64_t bytes = 0;
  };

  void collect(bool with_optimizer);
  void plan(const Limit& most);
  void fill_waves();
  void give_up();
  void copy_in(const Wave& wave);
  ConstView data_of(const Wave& wave, std::size_t slice) const;

  Session& session_;
  bool copies_;
  std::vector<StagedSlice> slices_;
  std::vector<Wave> waves_;
  std::int64_t capacity_ = 0;
  Tensor memory_;  ///< allocated when it is first needed

  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t filled_ = 0;   ///< waves; guarded
  std::size_t drained_ = 0;  ///< guarded
  bool given_up_ = false;    ///< by either; guarded
};

}  // namespace tessera
