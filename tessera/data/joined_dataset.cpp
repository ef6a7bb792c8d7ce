#include "tessera/data/joined_dataset.h"

#include <algorithm>
#include <utility>

#include "tessera/base/check.h"

namespace tessera {

JoinedDataset::JoinedDataset(std::vector<std::shared_ptr<const Dataset>> parts)
    : parts_(std::move(parts)) {
  check(!parts_.empty(), "nothing to join");
  std::int64_t end = 0;
  for (const auto& part : parts_) {
    check(part->seq_length() == seq_length(), "samples of {} and of {} tokens cannot be joined",
          seq_length(), part->seq_length());
    ends_.push_back(end += part->size());
  }
}

void JoinedDataset::get(std::int64_t i, const SampleView& sample) const {
  check(i >= 0 && i < size(), "there is no sample {}, only {}", i, size());
  const auto part = std::upper_bound(ends_.begin(), ends_.end(), i) - ends_.begin();
  const auto at = static_cast<std::size_t>(part);
  parts_[at]->get(i - (at == 0 ? 0 : ends_[at - 1]), sample);
}

}  // namespace tessera
