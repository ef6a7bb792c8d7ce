// The samples of a run: its data sets, the order of the training samples, and the loader that reads
// them.
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
  /// Builds the data sets; ranks take turns where a cache spares the others work. Rank 0 logs what
  /// is strange about them.
  TrainingData(const Options& options, const Progress& progress, const Rank& rank);

  /// Starts to read where the run stands, in the order of samples that `progress` describes; a new
  /// run describes it there. Rank 0 warns when the samples consumed so far are not those that the
  /// order has at their positions. InputError when the data has another name, too (`moved`).
  void open(Session& session, Progress& progress, bool moved);

  const Datasets& datasets() const { return datasets_; }
  /// The next microbatch of this rank.
  const HostBatch& next() { return loader_->next(); }
  /// Of all samples that this rank has read since `open`.
  std::uint64_t digest() const { return loader_->digest(); }
  /// In which the run waited for the loader.
  double waited_seconds() const { return loader_->waited_seconds(); }
  /// Of the batches that this rank takes.
  const LoaderShape& shape() const { return shape_; }

  /// What all ranks must find alike: the first samples of the first data-parallel rank.
  struct FirstBatch {
    std::uint64_t samples = 0;            ///< digest of their numbers
    std::optional<std::uint64_t> tokens;  ///< fingerprint; nothing where a rank reads none
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
