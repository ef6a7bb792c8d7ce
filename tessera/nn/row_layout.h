// How the rows of the residual stream are distributed over the tensor-parallel group: all rows on
// every rank, or, with sequence parallelism, consecutive shards of the sequence. Each rank
// multiplies all rows by its shard of the weight:
//
//                           all rows on every rank     sequence parallelism
//   before the first GEMM   identity                   all-gather
//   after the last GEMM     all-reduce                 reduce-scatter
//
// The two lines of the table are each other's backward (Megatron's f and g). With 2-D tensor
// parallelism (linear_2d.h) a rank has all rows of its microbatch, which holds the samples of its
// grid row, and a shard of the channels.
//
// Shape legend of the layers: N rows of this rank's microbatch; M of them in its shard of the
// residual stream (N / TP with sequence parallelism, else N); acc: the accumulator dtype (f32, or
// f64 for f64).
#pragma once

#include "tessera/nn/activation_layout.h"
#include "tessera/nn/microbatch.h"
#include "tessera/parallel/context.h"
#include "tessera/parallel/sharding.h"

namespace tessera {

/// Memory for all rows, [N, hidden] each, if a rank keeps only a shard of them; empty otherwise.
/// Three separate buffers, so that a gather or reduce-scatter can overlap with a GEMM in backward.
struct AllRows {
  /// backward: gathered gradient of the sublayer's output; forward: partial output before the
  /// reduce-scatter
  View dy;
  View dx;  ///< partial gradient of the sublayer's input, before the reduce-scatter
  View x;   ///< gathered input of the sublayer
};

class RowLayout {
 public:
  explicit RowLayout(const LayerContext& layer);

  /// The size of the tensor-parallel group.
  int ranks() const { return ranks_; }
  /// The number of shards of the residual stream over the tensor-parallel group.
  int shards() const { return channel_shards_ > 1 ? ranks_ : row_shards_; }
  /// The number of rows in this rank's shard (M).
  std::int64_t local_rows(const BatchShape& shape) const { return shape.rows() / row_shards_; }
  /// The channels in this rank's shard.
  Range channels(std::int64_t hidden) const {
    return balanced_range(hidden, channel_shards_, channel_shard_);
  }
  /// The shape of this rank's shard of the residual stream.
  Shape local_shape(const BatchShape& shape, std::int64_t hidden) const {
    return {local_rows(shape), channels(hidden).length()};
  }
  /// The position of the shard's first row in the microbatch's sequence.
  std::int64_t first_position(const BatchShape& shape) const {
    return shape.seq / row_shards_ * row_shard_;
  }
  /// This rank's M rows of a tensor with N rows.
  ConstView local_rows(const ConstView& rows) const;

  AllRows plan_buffers(ArenaLayout& scratch, DType dtype, const BatchShape& shape,
                       std::int64_t width, bool gradients) const;
  /// One such buffer, [N, width], or empty.
  View plan_buffer(ArenaLayout& scratch, DType dtype, const BatchShape& shape,
                   std::int64_t width) const {
    return split() ? scratch.take(dtype, {shape.rows(), width}) : View();
  }

  /// All rows, once the work of `gather` has been waited for: `all`, or `rows` if nothing had to be
  /// gathered.
  ConstView gathered(const View& all, const ConstView& rows) const { return split() ? all : rows; }
  WorkHandle gather(Context&, View all, ConstView rows) const;
  /// Gathers and waits.
  ConstView gather_now(Context&, View all, ConstView rows) const;

  /// Where this rank writes its partial sum before calling `sum`.
  View partial_sum(const View& all, const View& rows) const { return split() ? all : rows; }
  /// rows = the partial sums, reduced over the ranks: an all-reduce, or a reduce-scatter with
  /// sequence parallelism. `partial` is the view that `partial_sum` returned.
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
