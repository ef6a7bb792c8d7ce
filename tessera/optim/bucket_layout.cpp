#include "tessera/optim/bucket_layout.h"

#include <algorithm>

#include "tessera/base/check.h"

namespace tessera {
namespace {

constexpr std::int64_t kAlignment = 64;  // elements: at least two cache lines

std::int64_t rounded_up(std::int64_t n, std::int64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
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

std::int64_t BucketLayout::padded_elements(const Parameter& parameter) {
  return rounded_up(parameter.shape().numel(), kAlignment);
}

BucketLayout::BucketLayout(const std::vector<ParameterList>& units, int shards,
                           std::int64_t bucket_elements, int parts)
    : shards_(shards), parts_(parts), trained_of_(units.size(), -1), frozen_of_(units.size(), -1) {
  check(!units.empty() && shards >= 1, "a model without FSDP units, or {} shards", shards);
  for (const ParameterList& unit : units) {
    offsets_.resize(offsets_.size() + unit.size());
    for (const Parameter* parameter : unit)
      if (!parameter->trained() && parameter->shape().rank() == 1)
        longest_frozen_vector_ = std::max(longest_frozen_vector_, parameter->shape().numel());
  }
  of_parameter_.resize(offsets_.size());
  cut(units, bucket_elements, true);
  trained_ = buckets_.size();
  cut(units, bucket_elements, false);
}

// Starts at the end, since backward computes the gradients of the last units first.
void BucketLayout::cut(const std::vector<ParameterList>& units, std::int64_t bucket_elements,
                       bool trained) {
  std::vector<std::vector<std::size_t>> parts;  // FSDP units of each bucket, last ones first
  std::int64_t elements = bucket_elements;
  for (std::size_t unit = units.size(); unit-- > 0;) {
    std::int64_t added = 0;
    bool tied = false;
    for (const Parameter* parameter : units[unit]) {
      if (parameter->trained() == trained) added += padded_elements(*parameter);
      tied |= parameter->tied();
    }
    if (added == 0) continue;
    const bool full = elements >= bucket_elements || tied;
    if (full) parts.emplace_back();
    elements = (full ? 0 : elements) + added;
    if (tied) elements = bucket_elements;
    parts.back().push_back(unit);
  }
  std::vector<std::size_t> first(units.size());  // first parameter of each FSDP unit
  for (std::size_t unit = 1; unit < units.size(); ++unit)
    first[unit] = first[unit - 1] + units[unit - 1].size();
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    Bucket bucket;
    bucket.trained = trained;
    bucket.number = buckets_.size() - trained_;
    bucket.fsdp_units.assign(part->rbegin(), part->rend());
    ParameterList parameters;
    for (const std::size_t unit : bucket.fsdp_units) {
      (trained ? trained_of_ : frozen_of_)[unit] = static_cast<std::ptrdiff_t>(buckets_.size());
      for (std::size_t i = 0; i < units[unit].size(); ++i)
        if (units[unit][i]->trained() == trained) {
          bucket.parameters.push_back(first[unit] + i);
          parameters.push_back(units[unit][i]);
        }
    }
    place(parameters, bucket);
    buckets_.push_back(bucket);
  }
}

// Parameters with partial gradients are in the middle, grouped by reduction group, so that one call
// reduces each group. With 2-D tensor parallelism, parameters with weight decay are reduced over a
// grid column or not at all.
void BucketLayout::place(const ParameterList& parameters, Bucket& bucket) {
  const std::int64_t start = buckets_.empty() ? 0 : elements();
  std::int64_t used = start;
  const auto add = [&](bool decays, GradientGroup over) {
    const std::int64_t begin = used;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (parameters[i]->decays() != decays || parameters[i]->gradient_group() != over) continue;
      std::int64_t& offset = offsets_[bucket.parameters[i]];
      of_parameter_[bucket.parameters[i]] = buckets_.size();
      offset = used;
      used += padded_elements(*parameters[i]);
      add_gap(bucket.gaps, {offset + parameters[i]->shape().numel(), used});
    }
    if (over == GradientGroup::none || used == begin) return;
    std::vector<PartialGradient>& sums = bucket.partial_gradients;
    if (sums.empty() || sums.back().over != over) sums.push_back({over, {begin, begin}});
    sums.back().range.end = used;
  };
  for (const GradientGroup group : kGradientGroups) add(true, group);
  const std::int64_t middle = used;
  for (auto group = kGradientGroups.rbegin(); group != kGradientGroups.rend(); ++group)
    add(false, *group);
  bucket.group_ranges = {{{start, middle}, true}, {{middle, used}, false}};
  bucket.range = {start, start + rounded_up(used - start, kAlignment * shards_ * parts_)};
  bucket.group_ranges.back().range.end = bucket.range.end;  // padding is zero, and stays zero
  add_gap(bucket.gaps, {used, bucket.range.end});
}

Range BucketLayout::shard(const Bucket& bucket, int rank) const {
  const std::int64_t each = bucket.range.length() / shards_;
  const std::int64_t begin = bucket.range.begin + rank * each;
  return {begin, begin + each};
}

}  // namespace tessera
