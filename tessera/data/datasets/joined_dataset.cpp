#include "tessera/data/datasets/joined_dataset.h"

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

JoinedDataset::Place JoinedDataset::place_of(std::int64_t i) const {
  check(i >= 0 && i < size(), "there is no sample {}, only {}", i, size());
  const auto at =
      static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), i) - ends_.begin());
  return {at, i - (at == 0 ? 0 : ends_[at - 1])};
}

void JoinedDataset::get(std::int64_t i, const SampleView& sample) const {
  const Place place = place_of(i);
  parts_[place.part]->get(place.sample, sample);
}

std::uint64_t JoinedDataset::identity(std::int64_t i) const {
  const Place place = place_of(i);
  return parts_[place.part]->identity(place.sample);
}

}  // namespace tessera
