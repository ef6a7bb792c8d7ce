// The matrix products of one training step, by shape: what bench_gemm and bench_blas measure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/configs.h"

namespace tessera::bench {

/// d[m, n] (+)= op(a)[m, k] op(b)[k, n], all row-major without gaps.
struct Product {
  std::string name;  ///< layer and pass
  std::int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false;
  bool transpose_b = false;
  bool accumulate = false;
  double per_step = 1;  ///< how many a step has

  double flops() const {
    return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  }
  std::string op() const { return {transpose_a ? 'T' : 'N', transpose_b ? 'T' : 'N'}; }
};

/// Forward, input gradient and weight gradient of each linear layer and of the output layer, whose
/// rows come in the chunks that LmHead takes (a smaller last chunk counts as a part of one).
std::vector<Product> products_of(const Workload& workload);

/// Time and rate of all products of a step, from the measured time of each.
struct StepTotal {
  double seconds = 0;
  double flops = 0;
  void add(const Product& product, double seconds_each) {
    seconds += seconds_each * product.per_step;
    flops += product.flops() * product.per_step;
  }
  double gflops() const { return flops / seconds / 1e9; }
};

}  // namespace tessera::bench
