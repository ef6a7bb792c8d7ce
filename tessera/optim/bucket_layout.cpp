#include "tessera/optim/bucket_layout.h"

#include <algorithm>

#include "tessera/base/check.h"

namespace tessera {
namespace {

constexpr std::int64_t kAlignment = 64;  // elements: at least two cache lines

std::int64_t rounded_up(std::int64_t n, std::int64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

// Over which ranks all of its gradient is summed; parts of it may be summed besides (head copies).
GradientSum sum_of(const Parameter& parameter) {
  const GradientSum sum = parameter.tensors().front().gradient_sum;
  return sum == GradientSum::head_copies ? GradientSum::none : sum;
}

void add_gap(std::vector<Range>& gaps, const Range& gap) {
  if (gap.length() == 0) return;
  if (!gaps.empty() && gaps.back().end == gap.begin)
    gaps.back().end = gap.end;
  else
    gaps.push_back(gap);
}

}  // namespace

Range intersection(const Range& a, const Range& b) {
  const std::int64_t begin = std::max(a.begin, b.begin);
  return {begin, std::max(begin, std::min(a.end, b.end))};
}

std::int64_t BucketLayout::room_of(const Parameter& parameter) {
  return rounded_up(parameter.shape().numel(), kAlignment);
}

BucketLayout::BucketLayout(const std::vector<ParameterList>& units, int shards,
                           std::int64_t bucket_elements)
    : shards_(shards), of_unit_(units.size()) {
  check(!units.empty() && shards >= 1, "a model without parameters, or {} shards", shards);
  // Cut from the end, where the gradients of a backward pass come from first.
  std::vector<std::size_t> begins;
  std::int64_t elements = bucket_elements;
  for (std::size_t unit = units.size(); unit-- > 0;) {
    if (elements >= bucket_elements) begins.push_back(unit + 1);
    if (elements >= bucket_elements) elements = 0;
    for (const Parameter* parameter : units[unit]) elements += room_of(*parameter);
  }
  begins.push_back(0);
  std::reverse(begins.begin(), begins.end());
  for (std::size_t i = 0; i + 1 < begins.size(); ++i) {
    Bucket bucket;
    bucket.first_unit = begins[i];
    bucket.units = begins[i + 1] - begins[i];
    place(units, bucket);
    buckets_.push_back(bucket);
  }
}

// Those that are summed lie in the middle, each kind side by side, so that one call sums it: on a
// grid, parameters with weight decay are summed over a column or not at all.
void BucketLayout::place(const std::vector<ParameterList>& units, Bucket& bucket) {
  const std::size_t number = buckets_.size();
  std::int64_t used = elements_;
  ParameterList parameters;
  const std::size_t first = offsets_.size();
  for (std::size_t i = 0; i < bucket.units; ++i) {
    of_unit_[bucket.first_unit + i] = number;
    const ParameterList& unit = units[bucket.first_unit + i];
    parameters.insert(parameters.end(), unit.begin(), unit.end());
  }
  offsets_.resize(first + parameters.size());
  of_parameter_.resize(offsets_.size(), number);
  for (std::size_t i = 0; i < parameters.size(); ++i) bucket.parameters.push_back(first + i);
  const auto add = [&](bool decays, GradientSum over) {
    const std::int64_t begin = used;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (parameters[i]->decays() != decays || sum_of(*parameters[i]) != over) continue;
      offsets_[first + i] = used;
      used += room_of(*parameters[i]);
      add_gap(bucket.gaps, {offsets_[first + i] + parameters[i]->shape().numel(), used});
    }
    if (over == GradientSum::none || used == begin) return;
    std::vector<PartialSum>& sums = bucket.partial_sums;
    if (sums.empty() || sums.back().over != over) sums.push_back({over, {begin, begin}});
    sums.back().range.end = used;
  };
  add(true, GradientSum::none);
  add(true, GradientSum::tensor_group);
  add(true, GradientSum::grid_column);
  const std::int64_t middle = used;
  add(false, GradientSum::grid_column);
  add(false, GradientSum::tensor_group);
  add(false, GradientSum::none);
  bucket.stretches = {{{elements_, middle}, true}, {{middle, used}, false}};
  bucket.range = {elements_, elements_ + rounded_up(used - elements_, kAlignment * shards_)};
  bucket.stretches.back().range.end = bucket.range.end;  // padding is zeros, and stays so
  add_gap(bucket.gaps, {used, bucket.range.end});
  elements_ = bucket.range.end;
}

Range BucketLayout::shard(const Bucket& bucket, int rank) const {
  const std::int64_t each = bucket.range.length() / shards_;
  const std::int64_t begin = bucket.range.begin + rank * each;
  return {begin, begin + each};
}

}  // namespace tessera
