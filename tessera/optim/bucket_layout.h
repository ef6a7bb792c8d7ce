// Where parameters lie in a block of memory, and how the block is cut for communication. Pure: no
// memory, no ranks.
//
//   block    | bucket 0                     | bucket 1                 | ...
//   bucket   | shard 0   | shard 1   | ...  |      the ranks of a data-parallel group have one each
//   inside   | with weight decay    | without | padding
//
// Units (the embedding, a layer, the head) lie in the order of the forward pass; a bucket holds one
// or several neighbours.
#pragma once

#include <vector>

#include "tessera/nn/parameter.h"

namespace tessera {

/// A stretch of parameters that the optimizer treats alike.
struct Stretch {
  Range range;
  bool decays = false;
};

/// Gradients of which every rank of a tensor-parallel group (or a part of it) has an addend.
struct PartialSum {
  GradientSum over = GradientSum::none;
  Range range;
};

struct Bucket {
  std::size_t first_unit = 0;
  std::size_t units = 0;
  std::vector<std::size_t> parameters;  ///< by number
  Range range;                          ///< of the block; a multiple of the shards
  std::vector<Stretch> stretches;
  std::vector<PartialSum> partial_sums;
  std::vector<Range> gaps;  ///< that belong to no parameter
};

class BucketLayout {
 public:
  /// A bucket takes units, the last ones first, until it has `bucket_elements`.
  BucketLayout(const std::vector<ParameterList>& units, int shards, std::int64_t bucket_elements);

  const std::vector<Bucket>& buckets() const { return buckets_; }
  const Bucket& bucket_of_unit(std::size_t unit) const { return buckets_[of_unit_[unit]]; }
  const Bucket& bucket_of(std::size_t parameter) const {
    return buckets_[of_parameter_[parameter]];
  }
  int shards() const { return shards_; }
  /// Of the block, padding included.
  std::int64_t elements() const { return elements_; }
  /// Of one rank's shards of all buckets, one after the other.
  std::int64_t shard_elements() const { return elements_ / shards_; }
  /// Where a parameter starts in the block.
  std::int64_t offset(std::size_t parameter) const { return offsets_[parameter]; }

  /// The part of a bucket that a rank has, in the block.
  Range shard(const Bucket& bucket, int rank) const;
  /// Where that part starts among the rank's shards.
  std::int64_t shard_offset(const Bucket& bucket) const { return bucket.range.begin / shards_; }

  /// How much room a parameter takes.
  static std::int64_t room_of(const Parameter& parameter);

 private:
  void place(const std::vector<ParameterList>& units, Bucket& bucket);

  int shards_;
  std::int64_t elements_ = 0;
  std::vector<std::int64_t> offsets_;
  std::vector<std::size_t> of_parameter_;
  std::vector<std::size_t> of_unit_;
  std::vector<Bucket> buckets_;
};

/// What two ranges share; empty ranges begin and end at the same place.
Range intersection(const Range& a, const Range& b);

}  // namespace tessera
