#include "tessera/data/datasets/blended_dataset.h"

#include <utility>

#include "tessera/base/check.h"

namespace tessera {

BlendedDataset::BlendedDataset(std::vector<std::shared_ptr<const Dataset>> datasets,
                               BlendIndices indices)
    : datasets_(std::move(datasets)), indices_(std::move(indices)) {
  check(!datasets_.empty() && indices_.dataset.size() == indices_.sample.size(),
        "a blend of {} data sets has {} and {} entries", datasets_.size(), indices_.dataset.size(),
        indices_.sample.size());
  for (const auto& dataset : datasets_)
    check(dataset->seq_length() == seq_length(), "a blend mixes samples of {} and {} tokens",
          seq_length(), dataset->seq_length());
  std::vector<std::int64_t> taken(datasets_.size());
  for (std::int64_t i = 0; i < size(); ++i) ++taken[dataset_of(i)];
  for (std::size_t k = 0; k < taken.size(); ++k)
    check_input(taken[k] <= datasets_[k]->size(),
                "the blend takes {} samples of data set {}, which has {}: its weight is too "
                "small to give it a reserve; raise it, or use more iterations",
                taken[k], k + 1, datasets_[k]->size());
}

std::size_t BlendedDataset::dataset_of(std::int64_t i) const {
  check(i >= 0 && i < size(), "there is no sample {}, only {}", i, size());
  const auto k = static_cast<std::size_t>(indices_.dataset[static_cast<std::size_t>(i)]);
  check(k < datasets_.size(), "sample {} of a blend comes from data set {} of {}", i, k,
        datasets_.size());
  return k;
}

void BlendedDataset::get(std::int64_t i, const SampleView& sample) const {
  datasets_[dataset_of(i)]->get(indices_.sample[static_cast<std::size_t>(i)], sample);
}

std::uint64_t BlendedDataset::identity(std::int64_t i) const {
  const std::size_t k = dataset_of(i);
  return mixed_number(k + 1, datasets_[k]->identity(indices_.sample[static_cast<std::size_t>(i)]));
}

}  // namespace tessera
