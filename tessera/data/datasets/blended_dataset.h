// Several data sets as one, in the order of the blend's indices.
#pragma once

#include <memory>
#include <vector>

#include "tessera/data/datasets/blend_indices.h"
#include "tessera/data/datasets/dataset.h"

namespace tessera {

class BlendedDataset : public Dataset {
 public:
  /// All of one sequence length. InputError when the indices ask one for more than it has.
  BlendedDataset(std::vector<std::shared_ptr<const Dataset>> datasets, BlendIndices indices);

  std::int64_t size() const override { return static_cast<std::int64_t>(indices_.dataset.size()); }
  std::int64_t seq_length() const override { return datasets_.front()->seq_length(); }
  void get(std::int64_t i, const SampleView& sample) const override;
  std::uint64_t identity(std::int64_t i) const override;

 private:
  /// Checked: a damaged index must not lead out of the data.
  std::size_t dataset_of(std::int64_t i) const;

  std::vector<std::shared_ptr<const Dataset>> datasets_;
  BlendIndices indices_;
};

}  // namespace tessera
