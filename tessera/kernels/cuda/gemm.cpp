// Matrix products by cuBLAS. It thinks in columns: a row-major matrix is its transpose there, so
// d = op(a) op(b) is computed as d^T = op(b)^T op(a)^T without moving anything.
#include "tessera/kernels/cuda/cuda_kernels.h"
#include "tessera/kernels/cuda/runtime.h"

namespace tessera::cuda {
namespace {

using std::int64_t;

cudaDataType_t data_type(DType type) {
  switch (type) {
    case DType::f64: return CUDA_R_64F;
    case DType::f32: return CUDA_R_32F;
    case DType::bf16: return CUDA_R_16BF;
    case DType::f16: return CUDA_R_16F;
    default: fail_dtype(type, "gemm");
  }
}

cublasOperation_t operation(bool transpose) { return transpose ? CUBLAS_OP_T : CUBLAS_OP_N; }

// alpha and beta in the type that cuBLAS reads them in: that of the sums.
struct Scalars {
  Scalars(double alpha, double beta)
      : as_double{alpha, beta}, as_float{static_cast<float>(alpha), static_cast<float>(beta)} {}
  const void* at(int i, DType sums) const {
    return sums == DType::f64 ? static_cast<const void*>(&as_double[i]) : &as_float[i];
  }
  double as_double[2];
  float as_float[2];
};

void fill_zero(Stream& stream, const View& d) {
  const std::size_t size = size_of(d.dtype());
  check_op(cudaMemset2DAsync(d.raw(), static_cast<std::size_t>(d.stride(0)) * size, 0,
                             static_cast<std::size_t>(d.dim(1)) * size,
                             static_cast<std::size_t>(d.dim(0)), native(stream, "gemm")),
           "gemm");
}

}  // namespace

void CudaKernels::product(Stream& stream, const View& d, const ConstView& a, const ConstView& b,
                          const GemmSpec& spec, bool add) {
  const int64_t k = a.dim(spec.transpose_a ? 0 : 1);
  if (k == 0) {
    if (!add) fill_zero(stream, d);
    return;
  }
  const DType sums = accumulator_of(a.dtype());
  const Scalars scalars(spec.alpha, add ? 1.0 : 0.0);
  const cublasComputeType_t compute = sums == DType::f64 ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F;
  // Setting the stream takes the workspace away, so both are set.
  check_blas(cublasSetStream(blas_.get(), native(stream, "gemm")), "cublasSetStream");
  check_blas(
      cublasSetWorkspace(blas_.get(), blas_workspace_.view().raw(), blas_workspace_.view().bytes()),
      "cublasSetWorkspace");
  check_blas(
      cublasGemmEx_64(blas_.get(), operation(spec.transpose_b), operation(spec.transpose_a),
                      d.dim(1), d.dim(0), k, scalars.at(0, sums), b.raw(), data_type(b.dtype()),
                      b.stride(0), a.raw(), data_type(a.dtype()), a.stride(0), scalars.at(1, sums),
                      d.raw(), data_type(d.dtype()), d.stride(0), compute, CUBLAS_GEMM_DEFAULT),
      "cublasGemmEx");
}

// A bias is put where the product goes and the product added to it, so that their sum is rounded
// once.
void CudaKernels::do_gemm(Stream& stream, View d, const Operand& a, const Operand& b,
                          const GemmSpec& spec, Workspace) {
  const bool gelu = spec.epilogue == Epilogue::bias_gelu;
  const bool bias = spec.bias && (gelu || spec.epilogue == Epilogue::bias);
  const View sum = gelu ? spec.aux : d;
  if (bias)
    do_copy(stream, sum, ConstView(spec.bias.raw(), spec.bias.dtype(), sum.shape(), {0, 1}));
  product(stream, sum, a.data, b.data, spec, bias || spec.accumulate);
  if (gelu) gelu_of(stream, d, sum);
  if (spec.epilogue == Epilogue::dgelu) times_gelu_slope(stream, d, spec.aux);
}

}  // namespace tessera::cuda
