// Chooses the algorithm of each matrix product. A problem gets its plan at its first use and keeps
// it, so that results are bitwise reproducible within a run: the algorithm from the autotune cache
// if it has one, otherwise the fastest of the library's candidates, timed on the spot.
// Deterministic runs and captures do not time anything and use the library's first candidate.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "tessera/kernels/cuda/gemm/gemm_matmul.h"
#include "tessera/kernels/kernels.h"

namespace tessera::cuda {

class GemmPlans {
 public:
  /// `workspace` is the memory that cuBLASLt works in.
  GemmPlans(Device device, const CudaOptions& options, const View& workspace);

  /// False if cuBLASLt has no algorithm for the call. `scratch` is only used for timing.
  bool run(Stream& stream, const GemmCall& call, const Workspace& scratch);

  /// See Kernels. take_autotuned must not be called during a capture; plans are made anew at their
  /// next use.
  std::string autotuned() const { return cache_.text(); }
  void take_autotuned(const std::string& text);

 private:
  struct DestroyLibrary {
    void operator()(cublasLtContext* handle) const noexcept { cublasLtDestroy(handle); }
  };
  // Mixes all 18 numbers of a problem.
  struct Hash {
    std::size_t operator()(const GemmProblem& problem) const;
  };
  struct Plan {
    Plan(const GemmCall& call, bool tf32) : matmul(call, tf32) {}
    Matmul matmul;
    std::optional<GemmAlgorithm> algorithm;  /// none: the library has no algorithm
  };

  // The algorithm for a new problem; may run the product many times.
  std::optional<GemmAlgorithm> choose(Matmul& matmul, const std::string& problem,
                                      cudaStream_t stream, const GemmCall& call,
                                      const Workspace& scratch);

  bool tf32_;
  bool deterministic_;
  std::unique_ptr<cublasLtContext, DestroyLibrary> handle_;
  GemmLibrary library_;
  GemmAutotuneCache cache_;
  std::unordered_map<GemmProblem, Plan, Hash> plans_;
};

}  // namespace tessera::cuda
