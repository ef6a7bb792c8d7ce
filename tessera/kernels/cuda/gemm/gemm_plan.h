// Which algorithm computes which matrix product. A problem gets its plan at its first use and keeps
// it, so that an object repeats its bits: the algorithm in the gemm file if there is one, else the
// fastest of the library's suggestions, timed on the spot. Deterministic runs and captures time
// nothing and take the library's first suggestion.
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
  /// `workspace` is what the library works in.
  GemmPlans(Device device, const CudaOptions& options, const View& workspace);

  /// False when cuBLASLt has no algorithm for the call. `scratch` is only used for timing.
  bool run(Stream& stream, const GemmCall& call, const Workspace& scratch);

  /// As Kernels has them. Who takes some must not be capturing; plans follow at their next use.
  std::string autotuned() const { return cache_.text(); }
  void take_autotuned(const std::string& text);

 private:
  struct DestroyLibrary {
    void operator()(cublasLtContext* handle) const noexcept { cublasLtDestroy(handle); }
  };
  struct Hash {
    std::size_t operator()(const GemmProblem& problem) const;
  };
  struct Plan {
    Plan(const GemmCall& call, bool tf32) : matmul(call, tf32) {}
    Matmul matmul;
    std::optional<GemmAlgorithm> algorithm;  ///< none: the library has no answer
  };

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
