// How unevenly packed documents spread the work of attention over context-parallel ranks. A rank
// whose chunks are cut into short documents has fewer pairs of a query and a key that it sees.
#pragma once

#include <vector>

#include "tessera/data/loader.h"
#include "tessera/engine/session_options.h"

namespace tessera {

class ContextWork {
 public:
  /// How many keys a query sees at most; 0: no limit.
  struct Mask {
    std::int64_t window = 0;
    std::int64_t chunk = 0;  ///< only those of its chunk of the document
    bool operator==(const Mask&) const = default;
  };

  /// For batches of packed documents only: without those the work is even.
  explicit ContextWork(const SessionOptions& options);

  /// Whether batches can be uneven: some layer's attention is divided by position, not by heads
  /// alone.
  bool counts() const { return !divisions_.empty(); }
  /// Counts one microbatch: pairs under the mask and in one document. Every rank has
  /// the whole batch, so each counts the work of all.
  void add(const HostBatch& batch);
  /// The work of the busiest rank over the mean, in all microbatches since the last call. Ranks
  /// wait for each other in every layer of every microbatch, so the sum is of the busiest of each.
  /// 1 if nothing was counted.
  double take_imbalance();

 private:
  // Layers that divide the positions in the same way.
  struct Division {
    int parts;  ///< of the sequence: SequenceRanges::zigzag; ranks with equal parts share
                ///< heads evenly
    Mask mask;
    double layers;
  };
  static std::vector<Division> divisions_of(const SessionOptions& options);

  std::vector<Division> divisions_;
  double busiest_ = 0;  ///< what all ranks together would do if each did as much as the busiest
  double all_ = 0;
};

}  // namespace tessera
