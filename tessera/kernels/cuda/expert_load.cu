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
    if (expert[i] < 0) continue;
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
    statistics_kernel(double* out, const double* counts, const double* kept, int64_t layers,
                      int64_t experts, double factor) {
  __shared__ double of_layer[3][kLayerThreads];
  ExpertStatistics sum;
  for (int64_t first = 0; first < layers; first += kLayerThreads) {
    const int64_t layer = first + threadIdx.x;
    ExpertStatistics own;
    if (layer < layers) {
      const double* count = counts + layer * experts;
      own = load_statistics(count, kept != nullptr ? kept + layer * experts : count, experts);
    }
    of_layer[0][threadIdx.x] = own.imbalance;
    of_layer[1][threadIdx.x] = own.entropy;
    of_layer[2][threadIdx.x] = own.dropped;
    __syncthreads();
    if (threadIdx.x == 0)
      for (int i = 0; i < kLayerThreads; ++i) {
        sum.imbalance += of_layer[0][i];
        sum.entropy += of_layer[1][i];
        sum.dropped += of_layer[2][i];
      }
    __syncthreads();
  }
  if (threadIdx.x > 0) return;
  out[0] = factor * sum.imbalance;
  out[1] = factor * sum.entropy;
  out[2] = factor * sum.dropped;
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
    bias[i] += static_cast<A>(bias_step(counts[i], mean_count(counts, experts), rate));
  }
};

// The same for the share of an expert.
template <class A>
struct SetShare {
  A* shares;
  const double* counts;
  int64_t experts;
  const StepState* state;
  __device__ void operator()(int64_t i) const {
    const double mean = mean_count(counts, experts);
    if (state->skipped == 0 && mean > 0) shares[i] = static_cast<A>(counts[i] / mean);
  }
};

}  // namespace

void CudaKernels::do_count_experts(Stream& stream, View counts, ConstView expert) {
  const int64_t blocks = (expert.numel() + kPairsPerBlock - 1) / kPairsPerBlock;
  launch(stream, "count_experts", {blocks, dim3(kCountThreads)}, count_kernel,
         counts.data<double>(), expert.data<int32_t>(), expert.numel(), counts.numel());
}

void CudaKernels::do_expert_statistics(Stream& stream, View out, ConstView counts, ConstView kept,
                                       double factor) {
  launch(stream, "expert_statistics", {1, dim3(kLayerThreads)}, statistics_kernel,
         out.data<double>(), counts.data<double>(), kept ? kept.data<double>() : nullptr,
         counts.dim(0), counts.dim(1), factor);
}

void CudaKernels::do_set_expert_shares(Stream& stream, View shares, ConstView counts,
                                       ConstView state) {
  dispatch_accumulator(shares.dtype(), [&]<class A>(TypeTag<A>) {
    for_each(stream, "set_expert_shares", counts.numel(),
             SetShare<A>{shares.data<A>(), counts.data<double>(), counts.numel(),
                         static_cast<const StepState*>(state.raw())});
  });
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
