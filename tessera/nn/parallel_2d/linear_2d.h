// A linear layer with 2-D tensor parallelism on q x q ranks (SUMMA). Rank (i, j), in row i and
// column j, has
//
//   x [M, in / q]          the rows of shard i of the samples, shard j of the inputs
//   W [out / q, in / q]    shard j of the outputs (of each fused matrix), shard i of the inputs
//   y [M, out / q]         the same rows, shard j of the outputs
//
// so that a layer's output is distributed as the next layer's input must be, and only biases are
// replicated. With k over the grid:
//
//   y(i, j)  = sum_k x(i, k) W(k, j)^T     x from a rank of the row, W from one of the column
//   dx(i, k) = sum_j dy(i, j) W(k, j)      W from a rank of the column, summed over the row
//   dW(k, j) = sum_i dy(i, j)^T x(i, k)    x from a rank of the row, summed over the column
//
// A rank multiplies a panel at a time (summa_panels.h). Each of the three moves, per rank,
// (q - 1) / q^2 (samples x positions x in + in x out) elements.
#pragma once

#include "tessera/nn/linear.h"

namespace tessera {

class Linear2d final : public ParallelLinear {
 public:
  Linear2d(const LinearSpec& spec, const LayerContext& layer);

  SummaSizes summa_sizes(std::int64_t rows) const override;

  void forward(Context&, View y, ConstView x, const LinearScratch&) const override;
  WorkHandle backward_input(Context&, View dx, ConstView dy, const LinearScratch&) const override;
  void backward_weight(Context&, ConstView dy, ConstView x, const LinearScratch&) override;

 private:
  std::int64_t out() const { return weight_.shape()[0]; }
  std::int64_t in() const { return weight_.shape()[1]; }

  int side_;
};

}  // namespace tessera
