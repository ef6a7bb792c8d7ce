// A dataset whose samples are rearranged to fill in the middle (fim.h), and then cut or padded to
// the length that they had. Padding counts nothing in the loss. Samples are decoded and encoded
// again, so that `get` asks for memory.
#pragma once

#include <memory>

#include "tessera/data/datasets/dataset.h"
#include "tessera/data/datasets/fim.h"
#include "tessera/data/datasets/gpt_dataset.h"

namespace tessera {

class FimDataset : public Dataset {
 public:
  /// `options` are those of `dataset`, or of what it is mixed from: documents have moved, so that
  /// mask and positions are made anew.
  FimDataset(std::shared_ptr<const Dataset> dataset, FillInTheMiddle fim,
             const GptDatasetOptions& options);

  std::int64_t size() const override { return dataset_->size(); }
  std::int64_t seq_length() const override { return dataset_->seq_length(); }
  void get(std::int64_t i, const SampleView& sample) const override;
  std::uint64_t identity(std::int64_t i) const override { return dataset_->identity(i); }

 private:
  std::shared_ptr<const Dataset> dataset_;
  FillInTheMiddle fim_;
  GptDatasetOptions options_;
};

}  // namespace tessera
