// The training data of a run: its datasets, the order of the training samples, and the loader.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "tessera/checkpoint/saving/checkpointing.h"
#include "tessera/data/loader.h"
#include "tessera/launch/rank.h"
#include "tessera/options/options.h"
#include "tessera/train/datasets.h"

namespace tessera {

class TrainingData {
 public:
  /// Builds the datasets; with a cache, ranks take turns (launch/in_turn.h). Rank 0 logs warnings
  /// about the files.
  TrainingData(const Options& options, const Progress& progress, const Rank& rank);

  /// Starts reading at the run's position, in the sample order that `progress` describes; a new run
  /// stores its order there. Rank 0 warns if the samples consumed so far are not those that the
  /// order has at these positions; if the data has another path as well (`moved`), that is an
  /// InputError.
  void open(Session& session, Progress& progress, bool moved);

  const Datasets& datasets() const { return datasets_; }
  /// The next microbatch of this rank.
  const HostBatch& next() { return loader_->next(); }
  /// Digest of all samples that this rank has read since `open`.
  std::uint64_t digest() const { return loader_->digest(); }
  /// The time that the run has waited for the loader.
  double waited_seconds() const { return loader_->waited_seconds(); }
  /// The shape of this rank's batches.
  const LoaderShape& shape() const { return shape_; }

  /// Data that must be equal on all ranks: the first samples of the first data-parallel rank.
  struct FirstBatch {
    std::uint64_t samples = 0;            ///< digest of the sample numbers
    std::optional<std::uint64_t> tokens;  ///< fingerprint; nothing on ranks that read no tokens
  };
  FirstBatch first_batch(const Progress& progress) const;

 private:
  void check_order(const Progress& progress, bool moved) const;

  const Options& options_;
  bool checks_;  ///< rank 0
  Datasets datasets_;
  LoaderShape shape_;
  std::shared_ptr<const SampleOrder> order_;
  std::optional<Loader> loader_;
};

}  // namespace tessera
