// Memory of the parameters of a placement class and of their gradients: one contiguous block each,
// so that the optimizer runs over few long ranges and communication over few large buckets
// (bucket_layout.h). If they are sharded, a rank keeps its shards of the buckets, and layers work
// in buffers for one or two buckets.
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
  const ParameterBuffers* buffers = nullptr;  ///< the buffers that define its layout
  View memory;
  bool sharded = false;
  bool own_only = false;      ///< all buckets have memory, but only this rank's shards are reduced
  bool trained_only = false;  ///< frozen parameters have no memory in it
};

class ParameterBuffers {
 public:
  struct Options {
    PlacementClass placement_class = PlacementClass::dense;
    DType dtype = DType::f32;         ///< type of the parameters
    std::optional<DType> gradients;   ///< type of the gradients; none: there are no gradients
    int shards = 1;                   ///< number of ranks that optimizer state is sharded over
    int shard = 0;                    ///< index of this rank's shard
    bool shard_gradients = false;     ///< whether gradients are sharded as well
    bool shard_values = false;        ///< whether parameters are sharded as well
    int shard_parts = 1;              ///< number of parts that a shard can be cut into
    bool bf16_communication = false;  ///< whether gradients are communicated in bf16
    std::int64_t bucket_elements = std::numeric_limits<std::int64_t>::max();
  };

  /// A range that the optimizer updates on this rank.
  struct Owned {
    View value;
    View grad;
    Range state;  ///< its range in a block of optimizer state
    bool decays = false;
    bool decoupled = false;  ///< it has a learning rate of its own
  };

  /// Binds every parameter of the class; this rank may have none. All memory starts as zeros, and
  /// the padding between parameters stays zero through every update.
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
  /// The buckets that a block holds.
  std::span<const Bucket> buckets_of(const ParameterBlock& block) const {
    return block.trained_only ? layout_.trained() : std::span(layout_.buckets());
  }
  /// The part of a bucket that holds a parameter.
  View part(const View& bucket, std::size_t parameter) const;

  /// A whole bucket as layers read it and add to it. With sharding it is a buffer, which is
  /// overwritten when another bucket is used.
  View whole_values(const Bucket& bucket) const;
  View whole_grads(const Bucket& bucket) const;
  /// bf16 buffers as large as a bucket: for gradients received from other ranks, and for those to
  /// be sent.
  View bf16_in() const { return bf16_in_.view(); }
  View bf16_out() const { return bf16_out_.view(); }
  /// This rank's shard of the bucket, which is permanent.
  View own_values(const Bucket& bucket) const;
  View own_grads(const Bucket& bucket) const;
  /// This rank's shard of a bucket in a block, and the whole bucket in an unsharded block.
  View shard_in(const ParameterBlock& block, const Bucket& bucket) const;
  View bucket_in(const ParameterBlock& block, const Bucket& bucket) const;

  /// The length of a block of optimizer state.
  std::int64_t state_elements() const { return layout_.trained_elements() / layout_.shards(); }
  ParameterBlock state_block(const View& memory) const {
    return {this, memory, layout_.shards() > 1, false, true};
  }
  /// `decoupled`: the tables of tokens (embedding and output layer) are ranges of their own.
  std::vector<Owned> owned(bool decoupled) const;
  /// The options that follow from the sharding of a class's parameters; this rank has shard
  /// `shard`.
  static Options options_for(const ParallelOptions& parallel, PlacementClass placement_class,
                             int shard, DType dtype, std::optional<DType> gradients);
  /// The layout of those parameters of a model that belong to the class, under these options.
  static BucketLayout layout_for(const std::vector<ParameterList>& units, const Options& options);
  /// The gradients on this rank that count in the norm, flat and in as few ranges as possible:
  /// padding between neighbours is zero and does not matter.
  std::vector<View> counted_grads() const;
  /// The same of the parameters, frozen ones included.
  std::vector<View> counted_values() const;
  /// The number of trained elements that this rank counts.
  std::int64_t counted_elements() const;

  /// Number of elements of each tensor below: this rank's shard of parameters and gradients, and
  /// the buffers for the buckets in use.
  struct Elements {
    std::int64_t values = 0;
    std::array<std::int64_t, 2> slots{};
    std::array<std::int64_t, 2> frozen_slots{};
    std::int64_t grads = 0;
    std::int64_t grad_slot = 0;
    std::int64_t unread = 0;
    std::int64_t bf16_in = 0;   ///< bf16, receive
    std::int64_t bf16_out = 0;  ///< bf16, send

    std::int64_t all_values() const {
      return values + slots[0] + slots[1] + frozen_slots[0] + frozen_slots[1];
    }
    std::int64_t all_grads() const { return grads + grad_slot + unread; }
  };
  static Elements elements_for(const BucketLayout& layout, const Options& options);

 private:
  void allocate(Context& context, Memory& memory);
  std::vector<Range> counted_ranges(const Bucket& bucket, bool padded) const;
  View grad_of(const Bucket& bucket, std::size_t parameter) const;

  Options options_;
  ParameterList parameters_;
  BucketLayout layout_;
  Tensor values_;
  Tensor grads_;
  std::array<Tensor, 2> slots_;         ///< gathered parameters of buckets with even and odd number
  std::array<Tensor, 2> frozen_slots_;  ///< the same for frozen buckets
  Tensor grad_slot_;                    ///< gradients of the bucket in use, with sharded gradients
  Tensor bf16_in_;                      ///< bf16
  Tensor bf16_out_;
  Tensor unread_;  ///< gradients of frozen vectors, never read
};

}  // namespace tessera
