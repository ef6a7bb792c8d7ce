// The datasets of a run, and loaders over them.
#pragma once

#include <memory>

#include "tessera/config/options.h"
#include "tessera/data/build_datasets.h"
#include "tessera/data/loader.h"

namespace tessera {

class Datasets {
 public:
  /// Options must be resolved. Splits without sequences, or that no step needs, stay empty.
  explicit Datasets(const Options& options);

  /// Null when the split has no data.
  std::shared_ptr<const Dataset> get(Split split) const {
    return datasets_[static_cast<std::size_t>(split)];
  }
  const Tokenizer& tokenizer() const { return *tokenizer_; }

 private:
  std::unique_ptr<Tokenizer> tokenizer_;
  std::array<std::shared_ptr<const Dataset>, kSplits> datasets_;
};

/// How many samples each split must offer, as Megatron counts them.
std::int64_t samples_needed(const TrainOptions& options, Split split);

}  // namespace tessera
