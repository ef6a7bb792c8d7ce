// Microbatches of a dataset in Megatron's order. The positions of a run (sample_order.h) are taken
// one after the other; each block of micro_batch_size x dp_size of them is one microbatch on every
// data-parallel rank, rank r taking the r-th part. All that a resumed run needs is the count of
// samples consumed.
//
// Worker threads read ahead, a few microbatches at most, so that a slow file is waited for only
// when it is slower than the steps are.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "tessera/data/datasets/dataset.h"
#include "tessera/data/sample_order.h"

namespace tessera {

struct LoaderShape {
  std::int64_t micro_batch_size = 1;
  int dp_rank = 0;
  int dp_size = 1;
  int workers = 0;  ///< threads that read ahead; 0: samples are read when they are asked for
  /// False: tokens are not read, and are 0. Enough for who needs only the samples' numbers.
  bool reads = true;
  /// Whether there are blocks beyond the last sample. What is not there counts nothing.
  bool fills_up = false;
  bool documents = false;  ///< batches say where documents begin
};

/// One microbatch in host memory. B = micro_batch_size, S = seq_length.
struct HostBatch {
  std::int64_t batch = 0;                    ///< B
  std::int64_t seq_length = 0;               ///< S
  std::vector<std::int32_t> tokens;          ///< [B, S]
  std::vector<std::int32_t> labels;          ///< [B, S]
  std::vector<float> loss_mask;              ///< [B, S]
  std::vector<std::int32_t> positions;       ///< [B, S]
  std::vector<std::int64_t> sample_numbers;  ///< [B] which sample of the run each row is
  std::vector<std::int32_t> documents = {};  ///< [B, S] as in SampleView; empty: one to a sample
};

class Loader {
 public:
  /// Starts after `consumed_samples` samples of the whole run (over all ranks). Without an order
  /// they come one after the other.
  Loader(std::shared_ptr<const Dataset> dataset, const LoaderShape& shape,
         std::int64_t consumed_samples, std::shared_ptr<const SampleOrder> order = nullptr);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// The next microbatch of this rank, valid until the next call; allocates nothing. Error when
  /// the order has no full block left.
  const HostBatch& next();
  /// Goes on from another count.
  void seek(std::int64_t consumed_samples);
  /// Grows by micro_batch_size x dp_size with each call of next.
  std::int64_t consumed_samples() const { return start_ + handed_ * block(); }

  /// How long callers of next have waited for data since the loader was made.
  double waited_seconds() const { return waited_seconds_; }
  /// This rank's part of the digest (sample_order.h) of what next has returned since then.
  std::uint64_t digest() const { return digest_; }

 private:
  /// A microbatch, being read or read.
  struct Slot {
    HostBatch batch;
    std::uint64_t digest = 0;
    std::exception_ptr error;
    bool ready = false;
  };

  std::int64_t block() const { return shape_.micro_batch_size * shape_.dp_size; }
  bool exists(std::int64_t number) const;
  Slot& slot_at(std::int64_t number) {
    return slots_[static_cast<std::size_t>(number) % slots_.size()];
  }
  void fill(Slot& slot, std::int64_t number) const;
  void fill_row(Slot& slot, std::int64_t row, std::int64_t position) const;
  void start_workers();
  void stop_workers();
  void work();

  std::shared_ptr<const Dataset> dataset_;
  LoaderShape shape_;
  std::shared_ptr<const SampleOrder> order_;
  std::vector<Slot> slots_;
  std::int64_t start_ = 0;   ///< samples consumed before microbatch 0
  std::int64_t handed_ = 0;  ///< microbatches that next has returned
  double waited_seconds_ = 0;
  std::uint64_t digest_ = 0;

  std::mutex mutex_;               ///< guards what follows, handed_ and the slots' ready
  std::condition_variable asked_;  ///< for workers: there may be something to read
  std::condition_variable read_;   ///< for next: something was read
  std::int64_t taken_ = 0;         ///< microbatches that workers have begun
  bool stopping_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace tessera
