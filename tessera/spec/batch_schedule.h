// The global batch size as a function of the samples consumed, by Megatron's two ways to change it:
// --rampup-batch-size and --step-batch-size-schedule.
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/options/train_options.h"

namespace tessera {

class BatchSchedule {
 public:
  struct Step {
    std::int64_t from = 0;  ///< samples consumed before it
    std::int64_t size = 0;  ///< of the global batch
  };

  /// InputError if the options do not describe a schedule. Without one, the size is constant:
  /// global_batch_size. Thresholds of --step-batch-size-schedule are tokens.
  BatchSchedule(const TrainOptions& train, std::int64_t seq_length);

  const std::vector<Step>& steps() const { return steps_; }
  bool constant() const { return steps_.size() == 1; }
  std::int64_t size_at(std::int64_t consumed) const;
  std::int64_t largest() const;

  struct Length {
    std::int64_t iterations = 0;
    std::int64_t samples = 0;  ///< in these whole batches
  };
  /// The whole batches from `consumed` samples on until `end`.
  Length length(std::int64_t consumed, std::int64_t end) const;
  /// The samples of so many batches from `consumed` samples on.
  std::int64_t samples(std::int64_t consumed, std::int64_t iterations) const;

 private:
  std::vector<Step> steps_;  ///< ascending, the first from 0
};

}  // namespace tessera
