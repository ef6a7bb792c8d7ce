// Which sample of a dataset a run takes at each of its positions: Megatron's --dataloader-type.
//
//   single   position p takes sample p.
//   cyclic   the dataset again and again, shuffled anew each time: what Megatron's random sampler
//            gives data-parallel ranks that take microbatches of some size, bit for bit. Shuffles
//            follow the number of the epoch alone, no seed. Samples that do not fill a block of
//            micro_batch x ranks are left out of an epoch, other ones in each.
//              sharded      each rank shuffles a part of the dataset of its own (the default)
//              not sharded  all of it is shuffled, and ranks take every ranks-th sample
//
// The next epoch is shuffled beside the training, in the second half of the one before.
//
// An order is made for the ranks that a run starts with and stays the run's order: one that is
// resumed on other ranks reads the same samples at the same positions.
#pragma once

#include <array>
#include <cstdint>
#include <future>
#include <memory>
#include <mutex>
#include <stop_token>
#include <vector>

#include "tessera/data/datasets/dataset.h"
#include "tessera/options/data_options.h"

namespace tessera {

struct SampleOrderSpec {
  SampleOrderKind kind = SampleOrderKind::single;
  bool sharded = true;
  std::int64_t micro_batch_size = 1;
  int ranks = 1;  ///< data-parallel
};

class SampleOrder {
 public:
  /// Of a dataset of `samples`. InputError when cyclic has fewer than a block, or too many.
  SampleOrder(std::int64_t samples, const SampleOrderSpec& spec);
  ~SampleOrder();
  SampleOrder(const SampleOrder&) = delete;
  SampleOrder& operator=(const SampleOrder&) = delete;

  /// Positions are 0 to end() - 1.
  std::int64_t end() const { return end_; }
  bool is_shuffled() const { return spec_.kind == SampleOrderKind::cyclic; }
  /// Safe from several threads.
  std::int64_t at(std::int64_t position) const;

 private:
  /// Waited for by all who need it. The work is done by a thread of its own, or else by the first
  /// who waits; never under the lock.
  using Permutation = std::shared_future<std::vector<std::uint32_t>>;
  /// Of an epoch; `next`: the one behind it will be needed soon.
  Permutation permutation(std::int64_t epoch, bool next) const;
  Permutation begin_permutation(std::int64_t epoch, std::launch how) const;

  SampleOrderSpec spec_;
  std::int64_t end_;
  std::int64_t block_ = 1;   ///< samples of all ranks' microbatches
  std::int64_t active_ = 0;  ///< samples of an epoch
  std::int64_t bucket_ = 0;  ///< samples that are shuffled together
  mutable std::mutex mutex_;
  struct Epoch {
    std::int64_t number = -1;
    Permutation order;
  };
  mutable std::array<Epoch, 2> epochs_;  ///< at the border, readers are in two at once
  std::stop_source stop_;                ///< of what is shuffled in vain
};

/// 0 to size - 1, shuffled as PyTorch's randperm does on a CPU with a generator of this seed. When
/// it is asked to stop, nobody needs the result, and it returns something.
std::vector<std::uint32_t> torch_permutation(std::uint32_t size, std::uint32_t seed,
                                             const std::stop_token& stop = {});

/// A number for samples [0, end) of a run as they were taken: which, in which order, each once.
/// Ranks add up what each took itself, so that it is the same for all layouts. Sums wrap around.
/// `parts` are worked on at the same time, and do not change the result; 0: as many as are worth
/// it.
std::uint64_t order_digest(const Dataset& dataset, const SampleOrder& order, std::int64_t end,
                           int parts = 0);
/// What one sample adds to it.
std::uint64_t order_digest_part(const Dataset& dataset, std::int64_t position, std::int64_t sample);

}  // namespace tessera
