// Times candidate algorithms on the device with CUDA events, on the stream of the call.
#include "tessera/kernels/cuda/gemm/gemm_autotuner.h"

#include <algorithm>
#include <limits>
#include <memory>

#include "tessera/kernels/cuda/runtime.h"

namespace tessera::cuda {
namespace {

constexpr const char* kWhat = "the timing of a gemm";

struct DestroyEvent {
  void operator()(CUevent_st* event) const noexcept { cudaEventDestroy(event); }
};
// Timing events are recorded on the stream, so the times do not include host work.
using TimedEvent = std::unique_ptr<CUevent_st, DestroyEvent>;

TimedEvent make_event() {
  cudaEvent_t event = nullptr;
  check_op(cudaEventCreate(&event), kWhat);
  return TimedEvent(event);
}

// Runs and times the algorithms of one call.
class Autotuner {
 public:
  Autotuner(Matmul& matmul, const GemmLibrary& library, cudaStream_t stream, const GemmCall& call)
      : matmul_(matmul),
        library_(library),
        stream_(stream),
        call_(call),
        start_(make_event()),
        stop_(make_event()) {}

  // Whether the algorithm can be launched. Errors are expected: the heuristic does not check
  // everything.
  bool runs(const GemmAlgorithm& algorithm) {
    return matmul_.launch(library_, stream_, call_, algorithm) == CUBLAS_STATUS_SUCCESS;
  }

  /// Milliseconds per run: the mean of `repeats` back-to-back runs between two events.
  float time(const GemmAlgorithm& algorithm, int repeats) {
    // Earlier work on the stream has no influence: the start event is recorded after it.
    check_op(cudaEventRecord(start_.get(), stream_), kWhat);
    for (int i = 0; i < repeats; ++i)
      check_blas(matmul_.launch(library_, stream_, call_, algorithm), "cublasLtMatmul");
    check_op(cudaEventRecord(stop_.get(), stream_), kWhat);
    // Blocks the host, which is why nothing is timed while a graph is captured.
    check_op(cudaEventSynchronize(stop_.get()), kWhat);
    float milliseconds = 0;
    check_op(cudaEventElapsedTime(&milliseconds, start_.get(), stop_.get()), kWhat);
    return milliseconds / static_cast<float>(repeats);
  }

 private:
  Matmul& matmul_;
  const GemmLibrary& library_;
  cudaStream_t stream_;
  const GemmCall& call_;
  TimedEvent start_;
  TimedEvent stop_;
};

struct TimedAlgorithm {
  GemmAlgorithm algorithm;
  std::size_t place;  ///< in the library's order
  float time = std::numeric_limits<float>::infinity();
};

// The candidates that run at all. The first run also loads the kernel, which must not be timed.
std::vector<TimedAlgorithm> runnable(Autotuner& tuner,
                                     const std::vector<GemmAlgorithm>& candidates) {
  std::vector<TimedAlgorithm> timed;
  for (std::size_t i = 0; i < candidates.size(); ++i)
    if (tuner.runs(candidates[i])) timed.push_back({candidates[i], i});
  return timed;
}

// Runs for about 0.2 ms per measurement, so that launch overhead does not dominate for small
// products.
int repeats_for(float milliseconds) {
  return std::clamp(static_cast<int>(0.2f / std::max(milliseconds, 1e-3f)), 1, 20);
}

}  // namespace

// All candidates are timed once, the best six four more times, in turn, so that a temporary
// slowdown of the GPU (clocks, other work) affects all of them. The minimum of a candidate's times
// counts. Differences below 1 % are noise; there the library's order decides, which makes the
// choice stable.
GemmAlgorithm find_fastest(const std::vector<GemmAlgorithm>& candidates, Matmul& matmul,
                           const GemmLibrary& library, cudaStream_t stream, const GemmCall& call) {
  constexpr std::size_t kFinalists = 6;
  constexpr int kRounds = 4;
  constexpr float kNoise = 1.01f;
  Autotuner tuner(matmul, library, stream, call);
  std::vector<TimedAlgorithm> timed = runnable(tuner, candidates);
  // None could be launched; the caller's launch will report why.
  if (timed.empty()) return candidates.front();
  // One run to estimate the number of repeats.
  const int repeats = repeats_for(tuner.time(timed.front().algorithm, 1));
  const auto faster = [](const TimedAlgorithm& x, const TimedAlgorithm& y) {
    return x.time < y.time;
  };
  for (int round = 0; round <= kRounds; ++round) {
    for (TimedAlgorithm& each : timed)
      each.time = std::min(each.time, tuner.time(each.algorithm, repeats));
    // Sorted after every round, since the minimum may reorder them. The first round thus selects
    // the finalists.
    std::sort(timed.begin(), timed.end(), faster);
    timed.resize(std::min(timed.size(), kFinalists));
  }
  // The earliest candidate of the library's order within the noise of the best time.
  const TimedAlgorithm* best = &timed.front();
  const float limit = kNoise * best->time;
  for (const TimedAlgorithm& each : timed)
    if (each.time <= limit && each.place < best->place) best = &each;
  return best->algorithm;
}

}  // namespace tessera::cuda
