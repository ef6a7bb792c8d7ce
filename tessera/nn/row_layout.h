// How the rows of the residual stream lie on the tensor-parallel group: whole on every rank, or,
// with sequence parallelism, the ranks' consecutive parts of the sequence. A linear layer's product
// needs all rows of the part of the weight that a rank has:
//
//                     every rank has all rows          each rank has its part
//   into a product    nothing                          gather
//   out of a product  sum (all-reduce)                 sum, each its rows (reduce-scatter)
//
// Each is the backward of the other. With 2-D tensor parallelism (linear_2d.h) a rank has all rows
// of its microbatch, which holds the samples of its row of the grid, and some of the channels.
#pragma once

#include "tessera/nn/activation_layout.h"
#include "tessera/nn/microbatch.h"
#include "tessera/parallel/context.h"
#include "tessera/parallel/sharding.h"

namespace tessera {

/// Memory for all rows, [N, hidden] each, where a rank keeps only its part; empty otherwise. Three
/// of them, so that in backward communication and products of one sublayer can overlap.
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
  /// Into how many parts its ranks split the residual stream.
  int parts() const { return channel_shares_ > 1 ? ranks_ : parts_; }
  /// The rows that this rank keeps of a microbatch.
  std::int64_t kept(const BatchShape& shape) const { return shape.rows() / parts_; }
  /// The channels that it keeps of them.
  Range channels(std::int64_t hidden) const {
    return balanced_range(hidden, channel_shares_, channel_share_);
  }
  /// Of the part of the residual stream that it keeps.
  Shape kept(const BatchShape& shape, std::int64_t hidden) const {
    return {kept(shape), channels(hidden).length()};
  }
  /// The first of its rows, counted along the sequence of the microbatch.
  std::int64_t first_position(const BatchShape& shape) const { return shape.seq / parts_ * part_; }
  /// This rank's rows of something that has one per row of the microbatch.
  ConstView kept_of(const ConstView& rows) const;

  AllRows plan_buffers(ArenaLayout& scratch, DType dtype, const BatchShape& shape,
                       std::int64_t width, bool gradients) const;

  /// Where all rows are once `gather` was waited for: in `all`, or where they were.
  ConstView gathered(const View& all, const ConstView& rows) const { return split() ? all : rows; }
  WorkHandle gather(Context&, View all, ConstView rows) const;
  /// Gathers and waits.
  ConstView gather_now(Context&, View all, ConstView rows) const;

  /// Where this rank's partial sum goes before `sum`.
  View partial_sum(const View& all, const View& rows) const { return split() ? all : rows; }
  /// rows = the ranks' partial sums, reduced. `partial` is what `partial_sum` returned.
  WorkHandle sum(Context&, View rows, View partial) const;

 private:
  bool split() const { return parts_ > 1; }

  int ranks_;
  int parts_;
  int part_;
  int channel_shares_;
  int channel_share_;
};

}  // namespace tessera
