// One matrix product as descriptors of cuBLASLt.
//
// cuBLASLt is column-major: a row-major matrix is its transpose there, so d = op(a) op(b) is
// computed as d^T = op(b)^T op(a)^T without moving any data, and its bias per row is our bias per
// column.
#pragma once

#include <cublasLt.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "tessera/kernels/cuda/gemm/gemm_autotune_cache.h"
#include "tessera/tensor/view.h"

namespace tessera::cuda {

/// d[m, n] = alpha op(a)[m, k] op(b)[k, n], plus d with `add`, then the epilogue. Requires k > 0.
struct GemmCall {
  View d;
  ConstView a, b;
  bool transpose_a = false;
  bool transpose_b = false;
  double alpha = 1;
  bool add = false;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  ConstView bias{};  ///< [n]
  View aux{};        ///< [m, n]
};

/// Everything that the choice of an algorithm depends on, as numbers: sizes, strides, types,
/// alignments. alpha and `add` are not included, since cuBLASLt's heuristic does not use them
/// either.
using GemmProblem = std::array<std::int64_t, 18>;
GemmProblem problem_of(const GemmCall& call, bool tf32);
std::string to_string(const GemmProblem& problem);

/// Elements from one row to the next. cuBLASLt requires a valid value also for a matrix of one row.
std::int64_t row_stride(const ConstView& x);

/// Alignment in bytes of addresses and rows that the fastest algorithms require.
constexpr std::int64_t kGemmAlignment = 16;

/// The library handle, and our workspace that it uses instead of allocating. Two products must not
/// use it at once, so all products of one object run on one stream.
struct GemmLibrary {
  cublasLtHandle_t handle = nullptr;
  View workspace{};
};

/// The descriptors for all calls of one problem. Neither copyable nor movable: the library does not
/// document that its opaque descriptors may be.
class Matmul {
 public:
  Matmul(const GemmCall& call, bool tf32);
  Matmul(const Matmul&) = delete;
  Matmul& operator=(const Matmul&) = delete;

  /// Up to `most` algorithms with bitwise reproducible results, the one that the library expects to
  /// be fastest first. Empty if it has none for the problem.
  std::vector<GemmAlgorithm> candidates(const GemmLibrary& library, const GemmCall& call, int most);
  /// Whether an algorithm, for instance one from a file, may be used for this problem.
  bool accepts(const GemmLibrary& library, const GemmAlgorithm& algorithm);
  cublasStatus_t launch(const GemmLibrary& library, cudaStream_t stream, const GemmCall& call,
                        const GemmAlgorithm& algorithm);

 private:
  template <class T>
  void set(cublasLtMatmulDescAttributes_t what, const T& value);
  /// Sets the bias and aux pointers: they are part of the descriptor but change from call to call.
  void point_to(const GemmCall& call);

  cublasLtMatmulDescOpaque_t operation_{};
  cublasLtMatrixLayoutOpaque_t a_{};
  cublasLtMatrixLayoutOpaque_t b_{};
  cublasLtMatrixLayoutOpaque_t d_{};
};

}  // namespace tessera::cuda
