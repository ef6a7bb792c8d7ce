// Where the parameters of a placement class and their gradients live: one contiguous block each, so
// that the optimizer runs over few long ranges and communication over few large buckets
// (bucket_layout.h). Of what is sharded, a rank keeps its shards of the buckets, and layers work in
// buffers for a bucket or two.
#pragma once

#include <array>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "tessera/optim/bucket_layout.h"
#include "tessera/parallel/context.h"
#include "tessera/tensor/memory.h"

namespace tessera {

class ParameterBuffers;

/// Memory laid out like the parameters: all buckets whole, or this rank's shards of them.
struct ParameterBlock {
  const ParameterBuffers* buffers = nullptr;  ///< whose layout it has
  View memory;
  bool sharded = false;
  bool own_only = false;      ///< there is room for all, but only this rank's shards hold sums
  bool trained_only = false;  ///< frozen parameters have no place in it
};

class ParameterBuffers {
 public:
  struct Options {
    PlacementClass placement_class = PlacementClass::dense;
    DType dtype = DType::f32;         ///< of the parameters
    std::optional<DType> gradients;   ///< their type; none: there are no gradients
    int shards = 1;                   ///< over how many ranks optimizer state is sharded
    int shard = 0;                    ///< this rank's
    bool shard_gradients = false;     ///< and gradients
    bool shard_values = false;        ///< and parameters
    int shard_parts = 1;              ///< into how many a shard can be cut
    bool bf16_communication = false;  ///< gradients travel in bf16
    std::int64_t bucket_elements = std::numeric_limits<std::int64_t>::max();
  };

  /// What the optimizer updates on this rank.
  struct Owned {
    View value;
    View grad;
    Range state;  ///< in a block of optimizer state
    bool decays = false;
  };

  /// Binds every parameter of the class, of which this rank may have none. All memory starts as
  /// zeros, and the gaps that align parameters stay zero through every update.
  ParameterBuffers(const std::vector<ParameterList>& units, Context& context, Memory& memory,
                   const Options& options);

  /// In the order of the forward pass.
  const ParameterList& parameters() const { return parameters_; }
  const BucketLayout& layout() const { return layout_; }
  DType dtype() const { return options_.dtype; }
  PlacementClass placement_class() const { return options_.placement_class; }
  ParameterBlock values() const { return {this, values_.view(), options_.shard_values}; }
  ParameterBlock grads() const {
    return {this, grads_.view(), options_.shard_gradients,
            !options_.shard_gradients && options_.shards > 1, true};
  }
  /// Those that a block holds.
  std::span<const Bucket> buckets_of(const ParameterBlock& block) const {
    return block.trained_only ? layout_.trained() : std::span(layout_.buckets());
  }
  /// A parameter's part of its bucket.
  View part(const View& bucket, std::size_t parameter) const;

  /// A bucket where layers read and add to it. Of sharded blocks, what lies there is another
  /// bucket's when that has been used.
  View whole_values(const Bucket& bucket) const;
  View whole_grads(const Bucket& bucket) const;
  /// Room for as many elements as a bucket has, where gradients come in from other ranks, and where
  /// they wait in bf16 to be sent.
  View bf16_in() const { return bf16_in_.view(); }
  View bf16_out() const { return bf16_out_.view(); }
  /// This rank's shard of it, which stays.
  View own_values(const Bucket& bucket) const;
  View own_grads(const Bucket& bucket) const;
  /// This rank's shard of a bucket in some block, and the bucket in a block that is whole.
  View shard_in(const ParameterBlock& block, const Bucket& bucket) const;
  View bucket_in(const ParameterBlock& block, const Bucket& bucket) const;

  /// Of a block of optimizer state.
  std::int64_t state_elements() const { return layout_.trained_elements() / layout_.shards(); }
  ParameterBlock state_block(const View& memory) const {
    return {this, memory, layout_.shards() > 1, false, true};
  }
  std::vector<Owned> owned() const;
  /// What follows from how ranks share a class's parameters; this rank is `shard` of them.
  static Options options_for(const ParallelOptions& parallel, PlacementClass placement_class,
                             int shard, DType dtype, std::optional<DType> gradients);
  /// How those of a model's parameters that are of the class lie under these options.
  static BucketLayout layout_for(const std::vector<ParameterList>& units, const Options& options);
  /// The gradients on this rank that count in the norm, flat and in as few pieces as possible: the
  /// gaps between neighbours are zeros and do not count.
  std::vector<View> counted_grads() const;

  /// What a rank keeps: its share of values and gradients, and buffers for the buckets at work.
  struct Elements {
    std::int64_t values = 0;
    std::array<std::int64_t, 2> slots{};
    std::array<std::int64_t, 2> frozen_slots{};
    std::int64_t grads = 0;
    std::int64_t grad_slot = 0;
    std::int64_t unread = 0;
    std::int64_t bf16_in = 0;   ///< of bf16, to receive
    std::int64_t bf16_out = 0;  ///< and to send

    std::int64_t all_values() const {
      return values + slots[0] + slots[1] + frozen_slots[0] + frozen_slots[1];
    }
    std::int64_t all_grads() const { return grads + grad_slot + unread; }
  };
  static Elements elements_for(const BucketLayout& layout, const Options& options);

 private:
  void allocate(Context& context, Memory& memory);
  View grad_of(const Bucket& bucket, std::size_t parameter) const;

  Options options_;
  ParameterList parameters_;
  BucketLayout layout_;
  Tensor values_;
  Tensor grads_;
  std::array<Tensor, 2> slots_;         ///< of values, for buckets of even and of odd number
  std::array<Tensor, 2> frozen_slots_;  ///< for those that are frozen
  Tensor grad_slot_;                    ///< of gradients
  Tensor bf16_in_;                      ///< bf16
  Tensor bf16_out_;
  Tensor unread_;  ///< gradients of frozen vectors
};

}  // namespace tessera
