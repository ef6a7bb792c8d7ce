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
  /// Options must be resolved. Splits without sequences, or that no step needs, stay empty. A run
  /// that goes on has the order of its training samples from before (Progress); what it was made
  /// for may be less than `train_samples`, which it needs now: then it goes on in another order.
  Datasets(const Options& options, std::vector<std::int64_t> order_samples,
           std::int64_t train_samples);

  /// Empty when the split has no data. Several only for --multiple-validation-sets.
  const std::vector<NamedDataset>& get(Split split) const {
    return datasets_[static_cast<std::size_t>(split)];
  }
  const std::shared_ptr<const Dataset>& train() const { return get(Split::train).front().dataset; }
  /// Of the training samples, for Progress.
  const std::vector<std::int64_t>& order_samples() const { return order_samples_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  /// What is strange about the files, for one rank to warn of.
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  void build_train(const DatasetBuilder& builder, const Options& options, std::int64_t samples);
  /// Nothing: all samples that there are.
  void build_evaluation(const DatasetBuilder& builder, const Options& options, Split split,
                        std::optional<std::int64_t> samples);
  std::shared_ptr<const Dataset> train_order(const DatasetBuilder& builder, const Options& options,
                                             std::int64_t samples);

  std::unique_ptr<Tokenizer> tokenizer_;
  std::vector<std::string> warnings_;
  std::vector<std::int64_t> order_samples_;
  std::array<std::vector<NamedDataset>, kSplits> datasets_;
};

/// How many samples evaluations on a split read, as Megatron counts them; nothing: all of them.
std::optional<std::int64_t> evaluation_samples(const Options& options, Split split);

}  // namespace tessera
