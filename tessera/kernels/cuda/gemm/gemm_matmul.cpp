// Descriptors and algorithms of one cublasLtMatmul. a and b are swapped here, see the header.
#include "tessera/kernels/cuda/gemm/gemm_matmul.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>

#include "tessera/kernels/cuda/runtime.h"

namespace tessera::cuda {
namespace {

using std::int64_t;

// Allowed split-k reductions: partial sums over ranges of k are added in the compute type (f32 or
// f64) by a separate step with a fixed order. The other schemes either add in the order in which
// blocks finish, which is not reproducible, or round the partial sums to 16 bits.
constexpr std::uint32_t kReductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;

// The types of kernels.h that cuBLASLt multiplies.
cudaDataType_t data_type(DType type) {
  switch (type) {
    case DType::f64: return CUDA_R_64F;
    case DType::f32: return CUDA_R_32F;
    case DType::bf16: return CUDA_R_16BF;
    case DType::f16: return CUDA_R_16F;
    default: fail_dtype(type, "gemm");
  }
}

// 16-bit and f32 inputs accumulate in f32; TF32 (10-bit mantissa of the inputs) only on request.
cublasComputeType_t compute_type(DType type, bool tf32) {
  if (type == DType::f64) return CUBLAS_COMPUTE_64F;
  return type == DType::f32 && tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

// The largest power of two up to 16 that divides the address: the lowest set bit after bit 16 has
// been set as a bound. The null pointer counts as aligned.
std::uint32_t alignment_of(const ConstView& x) {
  const auto address = reinterpret_cast<std::uintptr_t>(x.raw()) | kGemmAlignment;
  return static_cast<std::uint32_t>(address & (~address + 1));
}

// Column-major for cuBLASLt: x[rows, columns] with row stride s is a matrix of `columns` rows,
// `rows` columns and leading dimension s.
void describe_matrix(cublasLtMatrixLayoutOpaque_t& layout, const ConstView& x) {
  check_blas(
      cublasLtMatrixLayoutInit(&layout, data_type(x.dtype()), static_cast<std::uint64_t>(x.dim(1)),
                               static_cast<std::uint64_t>(x.dim(0)), row_stride(x)),
      "cublasLtMatrixLayoutInit");
}

// The search preferences of the heuristic: workspace limit, reduction schemes, alignments.
class Preference {
 public:
  Preference() {
    check_blas(cublasLtMatmulPreferenceInit(&record_), "cublasLtMatmulPreferenceInit");
  }
  template <class T>
  void set(cublasLtMatmulPreferenceAttributes_t what, const T& value) {
    check_blas(cublasLtMatmulPreferenceSetAttribute(&record_, what, &value, sizeof(value)),
               "cublasLtMatmulPreferenceSetAttribute");
  }
  cublasLtMatmulPreference_t get() { return &record_; }

 private:
  cublasLtMatmulPreferenceOpaque_t record_{};
};

// One attribute of an opaque algorithm record.
template <class T>
T algorithm_setting(const cublasLtMatmulAlgo_t& algorithm,
                    cublasLtMatmulAlgoConfigAttributes_t what) {
  T value{};
  std::size_t written = 0;
  check_blas(
      cublasLtMatmulAlgoConfigGetAttribute(&algorithm, what, &value, sizeof(value), &written),
      "cublasLtMatmulAlgoConfigGetAttribute");
  return value;
}

// Whether an algorithm's results are bitwise reproducible: no split over k, or an ordered
// reduction.
bool repeats_its_bits(const cublasLtMatmulAlgo_t& algorithm) {
  const auto parts = algorithm_setting<std::int32_t>(algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM);
  const auto scheme =
      algorithm_setting<std::uint32_t>(algorithm, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME);
  // Any scheme is fine without split-k, since there are no partial sums to reduce.
  return parts == 1 || (scheme & ~kReductions) == 0;
}

// alpha and beta in the type that cuBLASLt reads them in, that of the accumulation.
struct Scalars {
  Scalars(double alpha, double beta)
      : as_double{alpha, beta}, as_float{static_cast<float>(alpha), static_cast<float>(beta)} {}
  // The library takes a pointer to a scalar of type void, so the type must match the accumulation.
  const void* at(int i, DType sums) const {
    return sums == DType::f64 ? static_cast<const void*>(&as_double[i]) : &as_float[i];
  }
  double as_double[2];
  float as_float[2];
};

}  // namespace

int64_t row_stride(const ConstView& x) {
  // A matrix of one row may have any stride in its view, while the library requires at least the
  // number of columns.
  return x.dim(0) > 1 ? x.stride(0) : std::max<int64_t>(1, x.dim(1));
}

// Every number that can change the library's choice. Alignment is part of it: algorithms with
// 16-byte loads are only valid for aligned operands.
GemmProblem problem_of(const GemmCall& call, bool tf32) {
  const int64_t k = call.a.dim(call.transpose_a ? 0 : 1);
  return {call.d.dim(0),
          call.d.dim(1),
          k,
          data_type(call.a.dtype()),
          data_type(call.d.dtype()),
          call.transpose_a,
          call.transpose_b,
          row_stride(call.a),
          row_stride(call.b),
          row_stride(call.d),
          call.aux ? row_stride(call.aux) : 0,
          call.epilogue,
          alignment_of(call.a),
          alignment_of(call.b),
          alignment_of(call.d),
          alignment_of(call.bias),
          alignment_of(call.aux),
          tf32};
}

// The line of the autotune cache: names and numbers, in the order of problem_of.
std::string to_string(const GemmProblem& problem) {
  constexpr const char* kNames[] = {
      "m",           "n",        "k",        "type",       "type_d",     "transpose_a",
      "transpose_b", "stride_a", "stride_b", "stride_d",   "stride_aux", "epilogue",
      "align_a",     "align_b",  "align_d",  "align_bias", "align_aux",  "tf32"};
  static_assert(std::size(kNames) == std::tuple_size_v<GemmProblem>);
  std::string text;
  for (std::size_t i = 0; i < problem.size(); ++i)
    text += fmt::format("{}{}={}", i == 0 ? "" : " ", kNames[i], problem[i]);
  return text;
}

// The library's a is our b and vice versa: d^T = op(b)^T op(a)^T.
Matmul::Matmul(const GemmCall& call, bool tf32) {
  // The scale type (alpha, beta, bias arithmetic) is that of the accumulation.
  const DType type = call.a.dtype();
  check_blas(cublasLtMatmulDescInit(&operation_, compute_type(type, tf32),
                                    data_type(accumulator_type(type))),
             "cublasLtMatmulDescInit");
  // No transposes are added by the swap: a transposed operand stays transposed.
  set(CUBLASLT_MATMUL_DESC_TRANSA, call.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(CUBLASLT_MATMUL_DESC_TRANSB, call.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(CUBLASLT_MATMUL_DESC_EPILOGUE, call.epilogue);
  if (call.aux) set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, row_stride(call.aux));
  // Layouts are of the matrices as they lie in memory, before op().
  describe_matrix(a_, call.b);
  describe_matrix(b_, call.a);
  describe_matrix(d_, call.d);
}

template <class T>
void Matmul::set(cublasLtMatmulDescAttributes_t what, const T& value) {
  check_blas(cublasLtMatmulDescSetAttribute(&operation_, what, &value, sizeof(value)),
             "cublasLtMatmulDescSetAttribute");
}

// Pointers are set again for each call; everything else in the descriptor belongs to the problem.
void Matmul::point_to(const GemmCall& call) {
  if (call.bias) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, call.bias.raw());
  if (call.aux) set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, call.aux.raw());
}

std::vector<GemmAlgorithm> Matmul::candidates(const GemmLibrary& library, const GemmCall& call,
                                              int most) {
  point_to(call);  // the heuristic considers their alignment
  Preference preference;
  preference.set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                 std::uint64_t{library.workspace.bytes()});
  preference.set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, kReductions);
  preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(call.b));
  preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(call.a));
  preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(call.d));
  preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(call.d));
  // The swap again: the library's A is our b.
  std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<std::size_t>(most));
  int count = 0;
  // C and D are the same matrix: beta = 1 adds to d in place.
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(library.handle, &operation_, &a_, &b_, &d_, &d_,
                                     preference.get(), most, results.data(), &count);
  // No algorithm for this problem, which the caller handles; anything else is an error.
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) return {};
  check_blas(status, "cublasLtMatmulAlgoGetHeuristic");
  results.resize(static_cast<std::size_t>(count));
  // Each result is checked as well, so that reproducibility does not rest on the preferences alone.
  std::vector<GemmAlgorithm> algorithms;
  for (const cublasLtMatmulHeuristicResult_t& each : results)
    if (each.state == CUBLAS_STATUS_SUCCESS && repeats_its_bits(each.algo))
      algorithms.push_back(std::bit_cast<GemmAlgorithm>(each.algo));
  return algorithms;
}

// The library checks that the configuration fits the problem; workspace and reproducibility are
// ours to check.
bool Matmul::accepts(const GemmLibrary& library, const GemmAlgorithm& algorithm) {
  const auto record = std::bit_cast<cublasLtMatmulAlgo_t>(algorithm);
  // Filled in by the check: the workspace that the algorithm needs for this problem.
  cublasLtMatmulHeuristicResult_t result{};
  return cublasLtMatmulAlgoCheck(library.handle, &operation_, &a_, &b_, &d_, &d_, &record,
                                 &result) == CUBLAS_STATUS_SUCCESS &&
         result.workspaceSize <= library.workspace.bytes() && repeats_its_bits(record);
}

cublasStatus_t Matmul::launch(const GemmLibrary& library, cudaStream_t stream, const GemmCall& call,
                              const GemmAlgorithm& algorithm) {
  point_to(call);
  const DType sums = accumulator_type(call.a.dtype());
  // beta = 1 reads d and adds to it; beta = 0 never reads d, so it may hold anything.
  const Scalars scalars(call.alpha, call.add ? 1.0 : 0.0);
  const auto record = std::bit_cast<cublasLtMatmulAlgo_t>(algorithm);
  return cublasLtMatmul(library.handle, &operation_, scalars.at(0, sums), call.b.raw(), &a_,
                        call.a.raw(), &b_, scalars.at(1, sums), call.d.raw(), &d_, call.d.raw(),
                        &d_, &record, library.workspace.raw(), library.workspace.bytes(), stream);
}

}  // namespace tessera::cuda
