// Where parameters and gradients live: one contiguous block each, so that the optimizer runs over
// few long ranges and communication over few large buckets (bucket_layout.h). Of what is sharded, a
// rank keeps its shards of the buckets, and layers work in buffers for a bucket or two.
#pragma once

#include <array>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include "tessera/optim/bucket_layout.h"
#include "tessera/parallel/context.h"
#include "tessera/tensor/memory.h"

namespace tessera {

/// Memory laid out like the parameters: all buckets whole, or this rank's shards of them.
struct ParameterBlock {
  View memory;
  bool sharded = false;
  bool own_only = false;  ///< there is room for all, but only this rank's shards hold sums
};

class ParameterBuffers {
 public:
  struct Options {
    std::optional<DType> gradients;  ///< their type; none: there are no gradients
    int shards = 1;                  ///< over how many ranks optimizer state is sharded
    int shard = 0;                   ///< this rank's
    bool shard_gradients = false;    ///< and gradients
    bool shard_values = false;       ///< and parameters
    std::int64_t bucket_elements = std::numeric_limits<std::int64_t>::max();
  };

  /// What the optimizer updates on this rank.
  struct Owned {
    View value;
    View grad;
    Range state;  ///< in a block of optimizer state
    bool decays = false;
  };

  /// Binds every parameter. All memory starts as zeros, and the gaps that align parameters stay
  /// zero through every update.
  ParameterBuffers(const std::vector<ParameterList>& units, Context& context, Memory& memory,
                   const Options& options);

  /// In the order of the forward pass.
  const ParameterList& parameters() const { return parameters_; }
  const BucketLayout& layout() const { return layout_; }
  DType dtype() const { return values_.view().dtype(); }
  ParameterBlock values() const { return {values_.view(), options_.shard_values}; }
  ParameterBlock grads() const {
    return {grads_.view(), options_.shard_gradients,
            !options_.shard_gradients && options_.shards > 1};
  }
  /// A parameter's part of its bucket.
  View part(const View& bucket, std::size_t parameter) const;

  /// A bucket where layers read and add to it. Of sharded blocks, what lies there is another
  /// bucket's when that has been used.
  View whole_values(const Bucket& bucket) const;
  View whole_grads(const Bucket& bucket) const;
  /// This rank's shard of it, which stays.
  View own_values(const Bucket& bucket) const;
  View own_grads(const Bucket& bucket) const;
  /// This rank's shard of a bucket in some block, and the bucket in a block that is whole.
  View shard_in(const ParameterBlock& block, const Bucket& bucket) const;
  View bucket_in(const ParameterBlock& block, const Bucket& bucket) const;

  /// Of a block of optimizer state.
  std::int64_t state_elements() const { return layout_.shard_elements(); }
  ParameterBlock state_block(const View& memory) const { return {memory, layout_.shards() > 1}; }
  std::vector<Owned> owned() const;
  /// The gradients on this rank that count in the norm, flat and in as few pieces as possible: the
  /// gaps between neighbours are zeros and do not count.
  std::vector<View> counted_grads() const;

  /// Bytes that a rank needs for parameters and for gradients.
  struct Bytes {
    std::int64_t values = 0;
    std::int64_t grads = 0;
  };
  static Bytes bytes_for(const BucketLayout& layout, DType dtype, const Options& options);

 private:
  void allocate(Context& context, Memory& memory, DType dtype);

  Options options_;
  ParameterList parameters_;
  BucketLayout layout_;
  Tensor values_;
  Tensor grads_;
  std::array<Tensor, 2> slots_;  ///< of values, for buckets of even and of odd number
  Tensor grad_slot_;             ///< of gradients
};

}  // namespace tessera
