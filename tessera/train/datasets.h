// The datasets of a run.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/data/build_datasets.h"
#include "tessera/data/loader.h"
#include "tessera/options/options.h"

namespace tessera {

class Datasets {
 public:
  /// Options must be resolved. Splits without sequences, or that no step needs, stay empty. A
  /// resumed run has the order of its training samples from before (Progress). If that order was
  /// made for fewer than the `train_samples` needed now, it continues in another order.
  Datasets(const Options& options, std::vector<std::int64_t> order_samples,
           std::int64_t train_samples);

  /// Empty if the split has no data. Several only with --multiple-validation-sets.
  const std::vector<NamedDataset>& get(Split split) const {
    return datasets_[static_cast<std::size_t>(split)];
  }
  const std::shared_ptr<const Dataset>& train() const { return get(Split::train).front().dataset; }
  /// The sizes that the order of training samples was made for, for Progress.
  const std::vector<std::int64_t>& order_samples() const { return order_samples_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  /// Warnings about the files, to be logged by one rank.
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  void build_train(const DatasetBuilder& builder, const Options& options, std::int64_t samples);
  /// Without a value: all samples.
  void build_evaluation(const DatasetBuilder& builder, const Options& options, Split split,
                        std::optional<std::int64_t> samples);
  std::shared_ptr<const Dataset> train_order(const DatasetBuilder& builder, const Options& options,
                                             std::int64_t samples);

  std::unique_ptr<Tokenizer> tokenizer_;
  std::vector<std::string> warnings_;
  std::vector<std::int64_t> order_samples_;
  std::array<std::vector<NamedDataset>, kSplits> datasets_;
};

/// The number of samples in a batch of an evaluation.
std::int64_t evaluation_batch(const TrainOptions& options);

/// The number of samples that evaluations on a split read, counted as in Megatron; nothing: all of
/// them.
std::optional<std::int64_t> evaluation_samples(const Options& options, Split split);

}  // namespace tessera
