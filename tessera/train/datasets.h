// The datasets of a run, and loaders over them.
#pragma once

#include <memory>
#include <vector>

#include "tessera/config/options.h"
#include "tessera/data/build_datasets.h"
#include "tessera/data/loader.h"

namespace tessera {

class Datasets {
 public:
  /// Options must be resolved. Splits without sequences, or that no step needs, stay empty. A run
  /// that goes on has the order of its training samples from before (Progress); what it was made
  /// for may be less than `train_samples`, which it needs now: then it goes on in another order.
  Datasets(const Options& options, std::vector<std::int64_t> order_samples,
           std::int64_t train_samples);

  /// Null when the split has no data.
  std::shared_ptr<const Dataset> get(Split split) const {
    return datasets_[static_cast<std::size_t>(split)];
  }
  /// Of the training samples, for Progress.
  const std::vector<std::int64_t>& order_samples() const { return order_samples_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }

 private:
  std::shared_ptr<const Dataset> train_order(const Options& options,
                                             const std::shared_ptr<const TokenSource>& source,
                                             std::int64_t samples);

  std::unique_ptr<Tokenizer> tokenizer_;
  std::vector<std::int64_t> order_samples_;
  std::array<std::shared_ptr<const Dataset>, kSplits> datasets_;
};

/// How many samples evaluations on a split read, as Megatron counts them.
std::int64_t evaluation_samples(const TrainOptions& options, Split split);

}  // namespace tessera
