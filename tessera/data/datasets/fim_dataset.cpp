#include "tessera/data/datasets/fim_dataset.h"

#include <algorithm>
#include <utility>

namespace tessera {

FimDataset::FimDataset(std::shared_ptr<const Dataset> dataset, FillInTheMiddle fim,
                       const GptDatasetOptions& options)
    : dataset_(std::move(dataset)), fim_(std::move(fim)), options_(options) {}

void FimDataset::get(std::int64_t i, const SampleView& sample) const {
  dataset_->get(i, sample);
  // With the last label these are one token more than the sample's length.
  std::vector<std::int32_t> tokens(sample.tokens.begin(), sample.tokens.end());
  tokens.push_back(sample.labels.back());
  std::vector<std::int32_t> all = fim_.rearranged(i, tokens);
  const std::size_t real = std::min(all.size(), tokens.size());
  all.resize(tokens.size(), fim_.tokens().pad);
  std::copy(all.begin(), all.end() - 1, sample.tokens.begin());
  std::copy(all.begin() + 1, all.end(), sample.labels.begin());
  fill_marks(sample, options_);
  // The label at t is token t + 1, of which `real` are no padding.
  const std::size_t counting = std::max<std::size_t>(real, 1) - 1;
  std::ranges::fill(sample.loss_mask.subspan(counting), 0.0f);
}

}  // namespace tessera
