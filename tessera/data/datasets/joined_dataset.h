// Datasets one behind the other, as one.
#pragma once

#include <memory>
#include <vector>

#include "tessera/data/datasets/dataset.h"

namespace tessera {

class JoinedDataset : public Dataset {
 public:
  /// At least one, all of the same seq_length.
  explicit JoinedDataset(std::vector<std::shared_ptr<const Dataset>> parts);

  std::int64_t size() const override { return ends_.back(); }
  std::int64_t seq_length() const override { return parts_.front()->seq_length(); }
  void get(std::int64_t i, const SampleView& sample) const override;
  std::uint64_t identity(std::int64_t i) const override;

 private:
  struct Place {
    std::size_t part;
    std::int64_t sample;  ///< of the part
  };
  Place place_of(std::int64_t i) const;

  std::vector<std::shared_ptr<const Dataset>> parts_;
  std::vector<std::int64_t> ends_;  ///< by part, the samples up to its end
};

}  // namespace tessera
