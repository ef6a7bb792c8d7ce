// Products of rows, sorted by expert, with the matrices of their experts: one grouped product for
// all experts, or one product per expert (--moe-grouped-gemm=false). The latter is the reference:
// the host reads how many rows each expert has, so a step on a GPU is not captured as a CUDA
// graph.
#pragma once

#include "tessera/nn/parameter.h"
#include "tessera/parallel/context.h"

namespace tessera {

class ExpertProducts {
 public:
  explicit ExpertProducts(bool grouped) : grouped_(grouped) {}

  // offsets i32 [L + 1]: where the rows of each of the L experts begin; all as in
  // Kernels::grouped_gemm and Kernels::grouped_weight_gradient.
  void multiply(Context&, View d, ConstView a, ConstView b, ConstView offsets,
                bool transpose_b) const;
  void weight_gradient(Context&, const Gradient& d, ConstView a, ConstView b,
                       ConstView offsets) const;

 private:
  bool grouped_;
};

}  // namespace tessera
