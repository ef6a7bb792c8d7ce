// One matrix product as cuBLASLt is told about it.
//
// cuBLASLt thinks in columns: a row-major matrix is its transpose there, so d = op(a) op(b) is
// computed as d^T = op(b)^T op(a)^T without moving anything, and its bias per row is ours per
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

/// d[m, n] = alpha op(a)[m, k] op(b)[k, n], plus what was in d with `add`, then the epilogue. k >
/// 0.
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

/// All that autotuning depends on, as numbers: sizes, strides, types, alignments.
/// alpha and `add` are not among them: cuBLASLt chooses without them, too.
using GemmProblem = std::array<std::int64_t, 18>;
GemmProblem problem_of(const GemmCall& call, bool tf32);
std::string to_string(const GemmProblem& problem);

/// Elements from one row to the next, as cuBLASLt demands it also of a matrix with one row.
std::int64_t row_stride(const ConstView& x);

/// What addresses and rows must be multiples of for the fastest algorithms.
constexpr std::int64_t kGemmAlignment = 16;

/// The library, and memory of ours in which it works instead of allocating. Two products must not
/// use that at once, so all products of one object go to one stream.
struct GemmLibrary {
  cublasLtHandle_t handle = nullptr;
  View workspace{};
};

/// A description that fits every call of one problem. Neither copied nor moved: nobody says that
/// the library's descriptors may be.
class Matmul {
 public:
  Matmul(const GemmCall& call, bool tf32);
  Matmul(const Matmul&) = delete;
  Matmul& operator=(const Matmul&) = delete;

  /// Up to `most` algorithms whose results repeat their bits, the one that the library expects to
  /// be fastest first. None when it has no answer for the problem.
  std::vector<GemmAlgorithm> candidates(const GemmLibrary& library, const GemmCall& call, int most);
  /// Whether an algorithm, one from a file say, may be used.
  bool accepts(const GemmLibrary& library, const GemmAlgorithm& algorithm);
  cublasStatus_t launch(const GemmLibrary& library, cudaStream_t stream, const GemmCall& call,
                        const GemmAlgorithm& algorithm);

 private:
  template <class T>
  void set(cublasLtMatmulDescAttributes_t what, const T& value);
  /// Bias and aux are part of the description, though they change from call to call.
  void point_to(const GemmCall& call);

  cublasLtMatmulDescOpaque_t operation_{};
  cublasLtMatrixLayoutOpaque_t a_{};
  cublasLtMatrixLayoutOpaque_t b_{};
  cublasLtMatrixLayoutOpaque_t d_{};
};

}  // namespace tessera::cuda
