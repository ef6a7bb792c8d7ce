// The CUDA backend's construction, its errors, and the ops that it does not have.
#include "tessera/base/check.h"
#include "tessera/kernels/cuda/cuda_kernels.h"
#include "tessera/kernels/cuda/runtime.h"
#include "tessera/tensor/cuda/check_cuda.h"

namespace tessera {

std::unique_ptr<Kernels> make_cuda_kernels(Device device) {
  return std::make_unique<cuda::CudaKernels>(device);
}

}  // namespace tessera

namespace tessera::cuda {
namespace {

using std::int64_t;

// What cuBLAS asks for on Hopper.
constexpr int64_t kBlasWorkspaceBytes = int64_t{32} << 20;

[[noreturn]] void fail_missing(const char* op) { fail("the CUDA backend has no {} yet", op); }

}  // namespace

void check_op(cudaError_t status, const char* op) { check_cuda(status, op); }

void check_blas(cublasStatus_t status, const char* call) {
  check(status == CUBLAS_STATUS_SUCCESS, "cuBLAS: {} failed: {}", call,
        cublasGetStatusString(status));
}

void require_op(bool ok, const char* op, const char* what) { check(ok, "{}: {}", op, what); }

cudaStream_t native(Stream& stream, const char* op) {
  check_op(cudaSetDevice(stream.device().index), op);
  return static_cast<cudaStream_t>(stream.native());
}

CudaKernels::CudaKernels(Device device)
    : blas_workspace_(
          Memory(device).allocate(MemoryUse::workspace, DType::u8, {kBlasWorkspaceBytes})) {
  cublasHandle_t handle = nullptr;
  check_blas(cublasCreate(&handle), "cublasCreate");  // on the device that the allocation selected
  blas_.reset(handle);
  // Sums stay in f32 to the end, whatever the type of the output; f32 products do not use TF32.
  check_blas(cublasSetMathMode(handle, CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION),
             "cublasSetMathMode");
}

void CudaKernels::do_embedding_forward(Stream&, View, ConstView, ConstView, int64_t, bool) {
  fail_missing("embedding_forward");
}
void CudaKernels::do_embedding_backward(Stream&, View, ConstView, ConstView, int64_t, bool) {
  fail_missing("embedding_backward");
}
void CudaKernels::do_softmax_stats(Stream&, View, ConstView, ConstView, int64_t) {
  fail_missing("softmax_stats");
}
void CudaKernels::do_softmax_rescale(Stream&, View, ConstView) { fail_missing("softmax_rescale"); }
void CudaKernels::do_cross_entropy(Stream&, View, View, ConstView, ConstView, ConstView, ConstView,
                                   ConstView, int64_t) {
  fail_missing("cross_entropy");
}
void CudaKernels::do_masked_sum(Stream&, View, ConstView, ConstView, bool) {
  fail_missing("masked_sum");
}
std::size_t CudaKernels::sum_squares_workspace_bytes(int64_t) const { fail_missing("sum_squares"); }
void CudaKernels::do_sum_squares(Stream&, View, ConstView, bool, Workspace) {
  fail_missing("sum_squares");
}
void CudaKernels::do_finish_grad_norm(Stream&, View, ConstView, double) {
  fail_missing("finish_grad_norm");
}
void CudaKernels::do_adamw_step(Stream&, View, View, View, View, ConstView, ConstView,
                                const AdamSpec&) {
  fail_missing("adamw_step");
}
void CudaKernels::do_sgd_step(Stream&, View, View, View, ConstView, ConstView, const SgdSpec&) {
  fail_missing("sgd_step");
}

}  // namespace tessera::cuda
