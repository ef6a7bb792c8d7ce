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
using TimedEvent = std::unique_ptr<CUevent_st, DestroyEvent>;

TimedEvent make_event() {
  cudaEvent_t event = nullptr;
  check_op(cudaEventCreate(&event), kWhat);
  return TimedEvent(event);
}

class Autotuner {
 public:
  Autotuner(Matmul& matmul, const GemmLibrary& library, cudaStream_t stream, const GemmCall& call)
      : matmul_(matmul),
        library_(library),
        stream_(stream),
        call_(call),
        start_(make_event()),
        stop_(make_event()) {}

  bool runs(const GemmAlgorithm& algorithm) {
    return matmul_.launch(library_, stream_, call_, algorithm) == CUBLAS_STATUS_SUCCESS;
  }

  /// Milliseconds of one run, the mean of several without a gap between them.
  float time(const GemmAlgorithm& algorithm, int repeats) {
    check_op(cudaEventRecord(start_.get(), stream_), kWhat);
    for (int i = 0; i < repeats; ++i)
      check_blas(matmul_.launch(library_, stream_, call_, algorithm), "cublasLtMatmul");
    check_op(cudaEventRecord(stop_.get(), stream_), kWhat);
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

// Those that run at all. The first run loads a kernel, which must not count.
std::vector<TimedAlgorithm> runnable(Autotuner& tuner,
                                     const std::vector<GemmAlgorithm>& candidates) {
  std::vector<TimedAlgorithm> timed;
  for (std::size_t i = 0; i < candidates.size(); ++i)
    if (tuner.runs(candidates[i])) timed.push_back({candidates[i], i});
  return timed;
}

// A fifth of a millisecond, so that the launch of a short product does not weigh.
int repeats_for(float milliseconds) {
  return std::clamp(static_cast<int>(0.2f / std::max(milliseconds, 1e-3f)), 1, 20);
}

}  // namespace

// All run once, the best few several times more, in turn: what slows the GPU down for a while then
// slows all of them. Differences below a hundredth are noise; there the library's order decides.
GemmAlgorithm find_fastest(const std::vector<GemmAlgorithm>& candidates, Matmul& matmul,
                           const GemmLibrary& library, cudaStream_t stream, const GemmCall& call) {
  constexpr std::size_t kFinalists = 6;
  constexpr int kRounds = 4;
  constexpr float kNoise = 1.01f;
  Autotuner tuner(matmul, library, stream, call);
  std::vector<TimedAlgorithm> timed = runnable(tuner, candidates);
  if (timed.empty()) return candidates.front();
  const int repeats = repeats_for(tuner.time(timed.front().algorithm, 1));
  const auto faster = [](const TimedAlgorithm& x, const TimedAlgorithm& y) {
    return x.time < y.time;
  };
  for (int round = 0; round <= kRounds; ++round) {
    for (TimedAlgorithm& each : timed)
      each.time = std::min(each.time, tuner.time(each.algorithm, repeats));
    std::sort(timed.begin(), timed.end(), faster);
    timed.resize(std::min(timed.size(), kFinalists));
  }
  const TimedAlgorithm* best = &timed.front();
  const float limit = kNoise * best->time;
  for (const TimedAlgorithm& each : timed)
    if (each.time <= limit && each.place < best->place) best = &each;
  return best->algorithm;
}

}  // namespace tessera::cuda
