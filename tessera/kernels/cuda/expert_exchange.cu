// Mixture of experts: where rows go that ranks exchange by all-to-all.
#include "tessera/kernels/cuda/cuda_kernels.h"
#include "tessera/kernels/cuda/launch.cuh"
#include "tessera/kernels/cuda/math.cuh"

namespace tessera::cuda {
namespace {

using std::int32_t;
using std::int64_t;

// A thread per shard of a chosen expert.
struct ExpertShards {
  int32_t* shard;
  const int32_t* expert;
  int64_t local, ranks;
  __device__ void operator()(int64_t i) const {
    const int64_t e = expert[i / ranks], t = i % ranks;
    shard[i] = e < 0 ? -1 : static_cast<int32_t>((e / local * ranks + t) * local + e % local);
  }
};

constexpr int kChunkThreads = 128;

__device__ int32_t block_sum(int32_t x) {
  __shared__ int32_t of_warp[kChunkThreads / kWarp];
  x = __reduce_add_sync(kAllLanes, x);
  __syncthreads();  // the last call's sums have been read by all
  if (threadIdx.x % kWarp == 0) of_warp[threadIdx.x / kWarp] = x;
  __syncthreads();
  int32_t sum = 0;
  for (const int32_t each : of_warp) sum += each;
  return sum;
}

// Block (r, l) moves the chunk of rank r for this rank's expert l; it adds up by itself how many
// rows come before the chunk, as received and as sorted. Block (0, l) also writes offsets[l], and
// the last of them the end.
__global__ void __launch_bounds__(kChunkThreads)
    sort_received_kernel(int32_t* order, int32_t* place, int32_t* offsets, const int32_t* all,
                         int64_t ranks, int64_t local, int64_t rank) {
  const int64_t r = blockIdx.x / local, l = blockIdx.x % local;
  const auto begin = [&](int64_t from, int64_t expert) {
    return all[from * (ranks * local + 1) + rank * local + expert];
  };
  int32_t received = 0, before = 0, sorted = 0;  // `before`: of the experts before l
  for (int64_t i = threadIdx.x; i < ranks; i += kChunkThreads) {
    if (i < r) received += begin(i, local) - begin(i, 0);
    before += begin(i, l) - begin(i, 0);
    if (i < r) sorted += begin(i, l + 1) - begin(i, l);
  }
  received = block_sum(received);
  before = block_sum(before);
  sorted = block_sum(sorted);
  const int32_t rows = begin(r, l + 1) - begin(r, l);
  const int32_t from = received + begin(r, l) - begin(r, 0), to = before + sorted;
  for (int32_t i = threadIdx.x; i < rows; i += kChunkThreads) {
    order[to + i] = from + i;
    place[from + i] = to + i;
  }
  if (threadIdx.x != 0) return;
  if (r == 0) offsets[l] = before;
  if (r == ranks - 1 && l == local - 1) offsets[local] = to + rows;
}

}  // namespace

void CudaKernels::do_expert_shards(Stream& stream, View shard, ConstView expert, int64_t local,
                                   int64_t ranks) {
  for_each(stream, "expert_shards", shard.numel(),
           ExpertShards{shard.data<int32_t>(), expert.data<int32_t>(), local, ranks});
}

void CudaKernels::do_sort_received(Stream& stream, View order, View place, View offsets,
                                   ConstView offsets_of_ranks, int64_t rank) {
  const int64_t ranks = offsets_of_ranks.dim(0), local = offsets.dim(0) - 1;
  launch(stream, "sort_received", {ranks * local, dim3(kChunkThreads)}, sort_received_kernel,
         order.data<int32_t>(), place.data<int32_t>(), offsets.data<int32_t>(),
         offsets_of_ranks.data<int32_t>(), ranks, local, rank);
}

}  // namespace tessera::cuda
