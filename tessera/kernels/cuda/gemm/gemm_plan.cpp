// Plans of matrix products: the cublasLtMatmul descriptors and the algorithm of each problem.
#include "tessera/kernels/cuda/gemm/gemm_plan.h"

#include <fmt/core.h>

#include "tessera/kernels/cuda/gemm/gemm_autotuner.h"
#include "tessera/kernels/cuda/runtime.h"

namespace tessera::cuda {
namespace {

using std::int64_t;

// Algorithms requested from the library's heuristic, best expected first, and timed by the
// autotuner.
constexpr int kCandidates = 32;

// A handle belongs to the device that is current when it is created.
cublasLtContext* make_library(Device device) {
  check_op(cudaSetDevice(device.index), "gemm");
  cublasLtHandle_t handle = nullptr;
  check_blas(cublasLtCreate(&handle), "cublasLtCreate");
  return handle;
}

// The device and library version that an algorithm's opaque description is valid for.
std::string autotune_setting(Device device) {
  cudaDeviceProp properties{};
  check_op(cudaGetDeviceProperties(&properties, device.index), "cudaGetDeviceProperties");
  return fmt::format("{}\tcuBLASLt {}", properties.name, cublasLtGetVersion());
}

// Timing needs host synchronisation, which is not allowed while a stream is captured.
bool is_capturing(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check_op(cudaStreamIsCapturing(stream, &status), "cudaStreamIsCapturing");
  return status != cudaStreamCaptureStatusNone;
}

// The call in a form that can be run many times. Output that is only written may be written again;
// a product that is added to d is redirected to scratch memory with the same strides. Nothing if
// the scratch memory is too small or not aligned as d is.
std::optional<GemmCall> repeatable(const GemmCall& call, const Workspace& scratch) {
  if (!call.add) return call;
  // Elements from the first to the last of d, gaps between rows included.
  const int64_t elements = (call.d.dim(0) - 1) * call.d.stride(0) + call.d.dim(1);
  const std::size_t bytes = static_cast<std::size_t>(elements) * element_size(call.d.dtype());
  if (!scratch || scratch.bytes() < bytes ||
      reinterpret_cast<std::uintptr_t>(scratch.raw()) % kGemmAlignment != 0)
    return {};
  GemmCall elsewhere = call;
  elsewhere.d = View(scratch.raw(), call.d.dtype(), call.d.shape(), call.d.strides());
  elsewhere.add = false;
  return elsewhere;
}

}  // namespace

GemmPlans::GemmPlans(Device device, const CudaOptions& options, const View& workspace)
    : tf32_(options.tf32),
      deterministic_(options.deterministic),
      handle_(make_library(device)),
      library_{handle_.get(), workspace},
      cache_(options.gemm_file, autotune_setting(device)) {}

// The multiplier is the golden ratio in 64 bits, which spreads small numbers over all bits.
// Problems differ in few of the 18 numbers, so each must reach the whole hash.
std::size_t GemmPlans::Hash::operator()(const GemmProblem& problem) const {
  std::uint64_t hash = 0;
  for (const int64_t number : problem)
    hash = (hash ^ static_cast<std::uint64_t>(number)) * 0x9e3779b97f4a7c15u + (hash >> 32);
  return hash;
}

// The first call of a problem chooses its algorithm; all later ones reuse it, so that the same call
// computes the same bits throughout a run.
bool GemmPlans::run(Stream& stream, const GemmCall& call, const Workspace& scratch) {
  const cudaStream_t on = native(stream, "gemm");
  const GemmProblem problem = problem_of(call, tf32_);
  // Constructs the descriptors only for a new problem.
  const auto [found, is_new] = plans_.try_emplace(problem, call, tf32_);
  Plan& plan = found->second;
  if (is_new) plan.algorithm = choose(plan.matmul, to_string(problem), on, call, scratch);
  // The library has no algorithm; the caller falls back to another form of the product.
  if (!plan.algorithm) return false;
  check_blas(plan.matmul.launch(library_, on, call, *plan.algorithm), "cublasLtMatmul");
  return true;
}

// Plans are dropped, since they may hold algorithms other than those just taken.
void GemmPlans::take_autotuned(const std::string& text) {
  cache_.take(text);
  plans_.clear();
}

// In this order: the cache file, the first candidate if timing is not possible, the fastest
// candidate.
std::optional<GemmAlgorithm> GemmPlans::choose(Matmul& matmul, const std::string& problem,
                                               cudaStream_t stream, const GemmCall& call,
                                               const Workspace& scratch) {
  const std::optional<GemmAlgorithm> stored = cache_.find(problem);
  // A stored algorithm is checked against the library, as the file may come from elsewhere.
  if (stored && matmul.accepts(library_, *stored)) return stored;
  const std::vector<GemmAlgorithm> candidates = matmul.candidates(library_, call, kCandidates);
  if (candidates.empty()) return {};
  // Timing is not deterministic: two runs could choose different algorithms, whose sums differ in
  // order.
  if (deterministic_ || is_capturing(stream)) return candidates.front();
  const std::optional<GemmCall> trial = repeatable(call, scratch);
  if (!trial) return candidates.front();
  const GemmAlgorithm fastest = find_fastest(candidates, matmul, library_, stream, *trial);
  // Written at once, so that a run that is killed does not time its products again.
  cache_.store(problem, fastest);
  return fastest;
}

}  // namespace tessera::cuda
