// Where parameters lie in a block of memory, and how the block is cut for communication. Pure: no
// memory, no ranks.
//
//   block    | bucket 0                     | bucket 1                 | ... | frozen buckets
//   bucket   | shard 0   | shard 1   | ...  |      the ranks of a data-parallel group have one each
//   inside   | with weight decay    | without | padding
//
// FSDP units (the embedding, a layer, the head) lie in the order of the forward pass; a bucket
// holds one or several neighbours. What is frozen has buckets of its own behind all others:
// gradients and optimizer state end before them.
#pragma once

#include <span>
#include <vector>

#include "tessera/nn/parameter.h"

namespace tessera {

/// Of a block's elements.
inline View part_of(const View& block, const Range& range) {
  return block.slice(0, range.begin, range.length());
}

/// A range of a parameter group: the optimizer treats its parameters alike.
struct ParameterGroupRange {
  Range range;
  bool decays = false;
};

/// Gradients that are partial on every rank of a group inside the model-parallel ranks.
struct PartialGradient {
  GradientGroup over = GradientGroup::none;
  Range range;
};

struct Bucket {
  bool trained = true;     ///< or frozen, all of it
  std::size_t number = 0;  ///< among those that are trained, or among the frozen ones
  std::vector<std::size_t> fsdp_units;
  std::vector<std::size_t> parameters;  ///< by number
  Range range;                          ///< of the block; a multiple of the shards
  std::vector<ParameterGroupRange> group_ranges;
  std::vector<PartialGradient> partial_gradients;
  std::vector<Range> gaps;  ///< that belong to no parameter
};

class BucketLayout {
 public:
  /// A bucket takes FSDP units, the last ones first, until it has `bucket_elements`. Its shards can
  /// be cut into `parts` equal ones. An FSDP unit with a tied parameter is a bucket by itself, so
  /// that it is cut alike wherever it is.
  BucketLayout(const std::vector<ParameterList>& units, int shards, std::int64_t bucket_elements,
               int parts = 1);

  /// Those that are trained come first.
  const std::vector<Bucket>& buckets() const { return buckets_; }
  std::span<const Bucket> trained() const { return {buckets_.data(), trained_}; }
  std::span<const Bucket> frozen() const { return std::span(buckets_).subspan(trained_); }
  /// What an FSDP unit has in them; null: nothing.
  const Bucket* trained_of(std::size_t unit) const { return find(trained_of_, unit); }
  const Bucket* frozen_of(std::size_t unit) const { return find(frozen_of_, unit); }
  const Bucket& bucket_of(std::size_t parameter) const {
    return buckets_[of_parameter_[parameter]];
  }
  /// Of the parameters of one dimension that are frozen.
  std::int64_t longest_frozen_vector() const { return longest_frozen_vector_; }
  int shards() const { return shards_; }
  /// Of the block, padding included, and of what is trained in it.
  std::int64_t elements() const { return buckets_.empty() ? 0 : buckets_.back().range.end; }
  std::int64_t trained_elements() const { return trained_ == 0 ? 0 : trained().back().range.end; }
  /// Where a parameter starts in the block.
  std::int64_t offset(std::size_t parameter) const { return offsets_[parameter]; }

  /// The part of a bucket that a rank has, in the block.
  Range shard(const Bucket& bucket, int rank) const;
  /// Where that part starts among the rank's shards.
  std::int64_t shard_offset(const Bucket& bucket) const { return bucket.range.begin / shards_; }

  /// How much room a parameter takes.
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

/// What two ranges share; empty ranges begin and end at the same place.
Range intersection(const Range& a, const Range& b);

}  // namespace tessera
