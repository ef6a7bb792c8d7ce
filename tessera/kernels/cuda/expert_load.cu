// Counts of how often experts were chosen. They are whole numbers in double, which add up exactly
// in any order.
#include "tessera/kernels/cuda/cuda_kernels.h"
#include "tessera/kernels/cuda/launch.cuh"
#include "tessera/kernels/expert_load.h"
#include "tessera/kernels/step_state.h"

namespace tessera::cuda {
namespace {

using std::int32_t;
using std::int64_t;

constexpr int kCountThreads = 256;
constexpr int64_t kPairsPerBlock = 16 * kCountThreads;
// Experts that a block counts in shared memory.
constexpr int kSharedExperts = 2048;

// A block counts kPairsPerBlock pairs in shared memory, and then adds its counts to those of the
// others. Experts beyond kSharedExperts are added one by one.
__global__ void __launch_bounds__(kCountThreads)
    count_kernel(double* counts, const int32_t* expert, int64_t pairs, int64_t experts) {
  __shared__ int own[kSharedExperts];
  const int shared = static_cast<int>(experts < kSharedExperts ? experts : kSharedExperts);
  for (int i = threadIdx.x; i < shared; i += kCountThreads) own[i] = 0;
  __syncthreads();
  const int64_t begin = blockIdx.x * kPairsPerBlock;
  const int64_t end = begin + kPairsPerBlock < pairs ? begin + kPairsPerBlock : pairs;
  for (int64_t i = begin + threadIdx.x; i < end; i += kCountThreads) {
    if (expert[i] < shared)
      atomicAdd(&own[expert[i]], 1);
    else
      atomicAdd(&counts[expert[i]], 1.0);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < shared; i += kCountThreads)
    if (own[i] > 0) atomicAdd(&counts[i], static_cast<double>(own[i]));
}

constexpr int kLayerThreads = 128;

// One block: a thread per layer, and the first adds up the layers in order, 128 at a time.
__global__ void __launch_bounds__(kLayerThreads)
    statistics_kernel(double* out, const double* counts, int64_t layers, int64_t experts,
                      double factor) {
  __shared__ double of_layer[2][kLayerThreads];
  double imbalance = 0, entropy = 0;
  for (int64_t first = 0; first < layers; first += kLayerThreads) {
    const int64_t layer = first + threadIdx.x;
    ExpertStatistics own;
    if (layer < layers) own = load_statistics(counts + layer * experts, experts);
    of_layer[0][threadIdx.x] = own.imbalance;
    of_layer[1][threadIdx.x] = own.entropy;
    __syncthreads();
    if (threadIdx.x == 0)
      for (int i = 0; i < kLayerThreads; ++i) {
        imbalance += of_layer[0][i];
        entropy += of_layer[1][i];
      }
    __syncthreads();
  }
  if (threadIdx.x > 0) return;
  out[0] = factor * imbalance;
  out[1] = factor * entropy;
}

// A thread per expert; each computes the mean, of the same whole numbers in the same order.
template <class A>
struct UpdateBias {
  A* bias;
  const double* counts;
  int64_t experts;
  const StepState* state;
  double rate;
  __device__ void operator()(int64_t i) const {
    if (state->skipped != 0) return;
    double mean = 0;
    for (int64_t j = 0; j < experts; ++j) mean += counts[j];
    mean /= static_cast<double>(experts);
    bias[i] += static_cast<A>(bias_step(counts[i], mean, rate));
  }
};

}  // namespace

void CudaKernels::do_count_experts(Stream& stream, View counts, ConstView expert) {
  const int64_t blocks = (expert.numel() + kPairsPerBlock - 1) / kPairsPerBlock;
  launch(stream, "count_experts", {blocks, dim3(kCountThreads)}, count_kernel,
         counts.data<double>(), expert.data<int32_t>(), expert.numel(), counts.numel());
}

void CudaKernels::do_expert_statistics(Stream& stream, View out, ConstView counts, double factor) {
  launch(stream, "expert_statistics", {1, dim3(kLayerThreads)}, statistics_kernel,
         out.data<double>(), counts.data<double>(), counts.dim(0), counts.dim(1), factor);
}

void CudaKernels::do_update_expert_bias(Stream& stream, View bias, ConstView counts,
                                        ConstView state, double rate) {
  dispatch_accumulator(bias.dtype(), [&]<class A>(TypeTag<A>) {
    for_each(stream, "update_expert_bias", counts.numel(),
             UpdateBias<A>{bias.data<A>(), counts.data<double>(), counts.numel(),
                           static_cast<const StepState*>(state.raw()), rate});
  });
}

}  // namespace tessera::cuda
