// Microbatches of a dataset in Megatron's order. Samples are taken one after the other; each block
// of micro_batch_size x dp_size consecutive samples is one microbatch on every data-parallel rank,
// rank r taking the r-th part. All that a resumed run needs is the count of samples consumed.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tessera/data/dataset.h"

namespace tessera {

struct LoaderShape {
  std::int64_t micro_batch_size = 1;
  int dp_rank = 0;
  int dp_size = 1;
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
  /// Starts after `consumed_samples` samples of the whole run (over all ranks).
  Loader(std::shared_ptr<const Dataset> dataset, const LoaderShape& shape,
         std::int64_t consumed_samples);

  /// The next microbatch of this rank, valid until the next call; allocates nothing. Error when
  /// the dataset has no full block left.
  const HostBatch& next();
  /// Goes on from another count.
  void seek(std::int64_t consumed_samples);
  /// Grows by micro_batch_size x dp_size with each call of next.
  std::int64_t consumed_samples() const { return consumed_samples_; }

 private:
  SampleView row(std::int64_t b);

  std::shared_ptr<const Dataset> dataset_;
  LoaderShape shape_;
  std::int64_t consumed_samples_ = 0;
  HostBatch batch_;
};

}  // namespace tessera
