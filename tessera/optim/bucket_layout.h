// Layout of parameters in a block of memory, and its division into buckets for communication. Pure
// functions: no memory, no ranks.
//
//   block    | bucket 0                     | bucket 1                 | ... | frozen buckets
//   bucket   | shard 0   | shard 1   | ...  |      one for each rank of the sharding group
//   inside   | with weight decay    | without | padding
//
// FSDP units (embedding, block, final norm, output layer) are in the order of the forward pass; a
// bucket holds one or several neighbours. Frozen parameters have buckets of their own after all
// others, so gradients and optimizer state end before them.
#pragma once

#include <span>
#include <vector>

#include "tessera/nn/parameter.h"

namespace tessera {

/// A range of a block's elements.
inline View part_of(const View& block, const Range& range) {
  return block.slice(0, range.begin, range.length());
}

/// A range of parameters of one parameter group: with weight decay, or without.
struct ParameterGroupRange {
  Range range;
  bool decays = false;
};

/// A range of gradients that are partial on every rank of a model-parallel group, and have to be
/// reduced over it.
struct PartialGradient {
  GradientGroup over = GradientGroup::none;
  Range range;
};

struct Bucket {
  bool trained = true;     ///< false: all of the bucket is frozen
  std::size_t number = 0;  ///< index among the trained buckets, or among the frozen ones
  std::vector<std::size_t> fsdp_units;
  std::vector<std::size_t> parameters;  ///< indices
  Range range;  ///< in the block; its length is a multiple of the number of shards
  std::vector<ParameterGroupRange> group_ranges;
  std::vector<PartialGradient> partial_gradients;
  std::vector<Range> gaps;  ///< ranges that belong to no parameter
};

class BucketLayout {
 public:
  /// A bucket takes FSDP units, last ones first, until it has `bucket_elements`. Its shards can be
  /// cut into `parts` equal parts. An FSDP unit with a tied parameter is a bucket by itself, so
  /// that it is cut in the same way on every stage.
  BucketLayout(const std::vector<ParameterList>& units, int shards, std::int64_t bucket_elements,
               int parts = 1);

  /// Trained buckets come first.
  const std::vector<Bucket>& buckets() const { return buckets_; }
  std::span<const Bucket> trained() const { return {buckets_.data(), trained_}; }
  std::span<const Bucket> frozen() const { return std::span(buckets_).subspan(trained_); }
  /// The bucket with an FSDP unit's trained (or frozen) parameters; null if it has none.
  const Bucket* trained_of(std::size_t unit) const { return find(trained_of_, unit); }
  const Bucket* frozen_of(std::size_t unit) const { return find(frozen_of_, unit); }
  const Bucket& bucket_of(std::size_t parameter) const {
    return buckets_[of_parameter_[parameter]];
  }
  /// The length of the longest frozen vector.
  std::int64_t longest_frozen_vector() const { return longest_frozen_vector_; }
  int shards() const { return shards_; }
  /// The number of elements of the block, padding included, and of its trained part.
  std::int64_t elements() const { return buckets_.empty() ? 0 : buckets_.back().range.end; }
  std::int64_t trained_elements() const { return trained_ == 0 ? 0 : trained().back().range.end; }
  /// Where a parameter starts in the block.
  std::int64_t offset(std::size_t parameter) const { return offsets_[parameter]; }

  /// The range of a rank's shard of a bucket in the block.
  Range shard(const Bucket& bucket, int rank) const;
  /// The offset of that shard in the memory of a rank's shards.
  std::int64_t shard_offset(const Bucket& bucket) const { return bucket.range.begin / shards_; }

  /// The number of elements that a parameter occupies, padding included.
  static std::int64_t padded_elements(const Parameter& parameter);

 private:
  void cut(const std::vector<ParameterList>& units, std::int64_t bucket_elements, bool trained);
  void place(const ParameterList& parameters, Bucket& bucket);
  const Bucket* find(const std::vector<std::ptrdiff_t>& of_unit, std::size_t unit) const {
    return of_unit[unit] < 0 ? nullptr : &buckets_[static_cast<std::size_t>(of_unit[unit])];
  }

  int shards_;
  int parts_;
  std::vector<std::int64_t> offsets_;
  std::vector<std::size_t> of_parameter_;
  std::vector<Bucket> buckets_;
  std::vector<std::ptrdiff_t> trained_of_;  ///< by FSDP unit: a bucket, or -1
  std::vector<std::ptrdiff_t> frozen_of_;
  std::size_t trained_ = 0;  ///< buckets
  std::int64_t longest_frozen_vector_ = 0;
};

/// The intersection of two ranges; an empty one begins and ends at the same place.
Range intersection(const Range& a, const Range& b);

}  // namespace tessera
