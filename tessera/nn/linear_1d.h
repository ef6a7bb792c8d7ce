// Linear layers with 1-D tensor parallelism.
//
//   column-parallel: each rank holds a slice of the output features. It needs all rows of its
//   input, and the input gradient is summed over the ranks.
//   row-parallel: each rank holds a slice of the input features. The output is summed over the
//   ranks, and backward needs all rows of the output's gradient.
//   replicated: each rank holds the whole weight and multiplies its own rows.
//
// Rows are gathered and sums reduced as row_layout.h describes. A column-parallel layer followed by
// a row-parallel one costs one all-reduce in each direction, or an all-gather and a reduce-scatter.
#pragma once

#include "tessera/nn/linear.h"

namespace tessera {

/// Common base: weight, optional bias and the three GEMMs.
class Linear1d : public ParallelLinear {
 public:
  void backward_weight(Context&, ConstView dy, ConstView x, const LinearScratch&) final;

 protected:
  Linear1d(const LayerContext& layer, Parameter weight, std::optional<Parameter> bias);

  /// y = op(x W^T) with the epilogue that `spec` names.
  void product(Context&, View y, ConstView x, GemmSpec spec) const;
  /// dx = dy W.
  void input_gradient(Context&, View dx, ConstView dy, GemmSpec spec) const;

  RowLayout rows_;
};

/// y [N, out / TP]; x: this rank's rows [M, in].
class ColumnParallelLinear final : public Linear1d {
 public:
  ColumnParallelLinear(const LinearSpec& spec, const LayerContext& layer);

  void forward(Context&, View y, ConstView x, const LinearScratch&) const override;
  void forward_gelu(Context&, View y, View pre, ConstView x, const LinearScratch&) const override;
  WorkHandle backward_input(Context&, View dx, ConstView dy, const LinearScratch&) const override;
};

/// y: this rank's rows [M, out]; x [N, in / TP].
class RowParallelLinear final : public Linear1d {
 public:
  RowParallelLinear(const LinearSpec& spec, const LayerContext& layer);

  void forward(Context&, View y, ConstView x, const LinearScratch&) const override;
  WorkHandle backward_input(Context&, View dx, ConstView dy, const LinearScratch&) const override;
  void backward_input_gelu(Context&, View dx, ConstView dy, View pre,
                           const LinearScratch&) const override;
};

/// y [M, out], x [M, in]: this rank's rows. With sequence parallelism its gradient is partial.
class ReplicatedLinear final : public Linear1d {
 public:
  ReplicatedLinear(const LinearSpec& spec, const LayerContext& layer);

  void forward(Context&, View y, ConstView x, const LinearScratch&) const override;
  WorkHandle backward_input(Context&, View dx, ConstView dy, const LinearScratch&) const override;
  /// The same, added to dx.
  void add_input_gradient(Context&, View dx, ConstView dy) const;
};

}  // namespace tessera
