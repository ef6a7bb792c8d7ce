// How the rows of the residual stream are distributed over the tensor-parallel group: all rows on
// every rank, or, with sequence parallelism, consecutive parts of the sequence. The product of a
// linear layer needs all rows for the part of the weight that a rank holds:
//
//                     every rank has all rows          each rank has its part
//   into a product    nothing                          gather
//   out of a product  sum (all-reduce)                 sum, each its rows (reduce-scatter)
//
// Each is the backward of the other. With 2-D tensor parallelism (linear_2d.h) a rank has all rows
// of its microbatch, which holds the samples of its grid row, and some of the channels.
#pragma once

#include "tessera/nn/activation_layout.h"
#include "tessera/nn/microbatch.h"
#include "tessera/parallel/context.h"
#include "tessera/parallel/sharding.h"

namespace tessera {

/// Memory for all rows, [N, hidden] each, if a rank keeps only its part; empty otherwise. There are
/// three, so that communication and products of a sublayer's backward can overlap.
struct AllRows {
  View dy;  ///< the gradient of a sublayer's output; its output in forward
  View dx;  ///< the partial gradient of its input
  View x;   ///< its input
};

class RowLayout {
 public:
  explicit RowLayout(const LayerContext& layer);

  /// The size of the tensor-parallel group.
  int ranks() const { return ranks_; }
  /// The number of parts that the ranks split the residual stream into.
  int shards() const { return channel_shards_ > 1 ? ranks_ : row_shards_; }
  /// The number of rows of a microbatch that this rank keeps.
  std::int64_t local_rows(const BatchShape& shape) const { return shape.rows() / row_shards_; }
  /// The channels that it keeps.
  Range channels(std::int64_t hidden) const {
    return balanced_range(hidden, channel_shards_, channel_shard_);
  }
  /// The shape of the part of the residual stream that it keeps.
  Shape local_shape(const BatchShape& shape, std::int64_t hidden) const {
    return {local_rows(shape), channels(hidden).length()};
  }
  /// The position of its first row in the sequence of the microbatch.
  std::int64_t first_position(const BatchShape& shape) const {
    return shape.seq / row_shards_ * row_shard_;
  }
  /// This rank's rows of a tensor with one row per row of the microbatch.
  ConstView local_rows(const ConstView& rows) const;

  AllRows plan_buffers(ArenaLayout& scratch, DType dtype, const BatchShape& shape,
                       std::int64_t width, bool gradients) const;

  /// Where all rows are after `gather` has been waited for: in `all`, or in `rows` if nothing had
  /// to be gathered.
  ConstView gathered(const View& all, const ConstView& rows) const { return split() ? all : rows; }
  WorkHandle gather(Context&, View all, ConstView rows) const;
  /// Gathers and waits.
  ConstView gather_now(Context&, View all, ConstView rows) const;

  /// Where this rank writes its partial sum before calling `sum`.
  View partial_sum(const View& all, const View& rows) const { return split() ? all : rows; }
  /// rows = the partial sums of all ranks, reduced. `partial` is the view that `partial_sum`
  /// returned.
  WorkHandle sum(Context&, View rows, View partial) const;

 private:
  bool split() const { return row_shards_ > 1; }

  int ranks_;
  int row_shards_;
  int row_shard_;
  int channel_shards_;
  int channel_shard_;
};

}  // namespace tessera
