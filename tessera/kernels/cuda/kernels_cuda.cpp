// Construction of the CUDA backend, and the error functions of runtime.h.
#include <cublasLt.h>

#include "tessera/base/check.h"
#include "tessera/kernels/cuda/attention/cudnn_attention.h"
#include "tessera/kernels/cuda/cuda_kernels.h"
#include "tessera/kernels/cuda/gemm/gemm_plan.h"
#include "tessera/kernels/cuda/runtime.h"
#include "tessera/tensor/cuda/check_cuda.h"

namespace tessera {

std::unique_ptr<Kernels> make_cuda_kernels(Device device, const CudaOptions& options) {
  return std::make_unique<cuda::CudaKernels>(device, options);
}

}  // namespace tessera

namespace tessera::cuda {
namespace {

using std::int64_t;

// 32 MiB, the workspace that NVIDIA recommends for cuBLASLt on Hopper. Column sums use it, too, and
// need far less.
constexpr int64_t kWorkspaceBytes = int64_t{32} << 20;

}  // namespace

void check_op(cudaError_t status, const char* op) { check_cuda(status, op); }

void check_blas(cublasStatus_t status, const char* call) {
  check(status == CUBLAS_STATUS_SUCCESS, "cuBLASLt: {} failed: {}", call,
        cublasLtGetStatusString(status));
}

// A plain function, so that callers compiled by nvcc do not see {fmt} (runtime.h).
void require_op(bool ok, const char* op, const char* what) { check(ok, "{}: {}", op, what); }

// Sets the device first: launches and library calls of this thread apply to the current device.
cudaStream_t native(Stream& stream, const char* op) {
  check_op(cudaSetDevice(stream.device().index), op);
  return static_cast<cudaStream_t>(stream.native());
}

CudaKernels::CudaKernels(Device device, const CudaOptions& options)
    // Allocated here once: nothing may be allocated while a CUDA graph is captured.
    : workspace_(Memory(device).allocate(MemoryUse::workspace, DType::u8, {kWorkspaceBytes})),
      gemms_(std::make_unique<GemmPlans>(device, options, workspace_)),
      cudnn_(std::make_unique<CudnnAttention>(device, options.deterministic)) {}

CudaKernels::~CudaKernels() = default;

}  // namespace tessera::cuda
