// Mixture of experts: the sort of rows by expert, and the weights of rows. The products with the
// experts' matrices are in grouped/grouped_gemm.cu.
//
// Counts and offsets stay on the device, so that a step can be captured in a CUDA graph: the host
// never learns how many rows an expert got.
#include "tessera/kernels/cuda/cuda_kernels.h"
#include "tessera/kernels/cuda/launch.cuh"
#include "tessera/kernels/cuda/math.cuh"

namespace tessera::cuda {
namespace {

using std::int32_t;
using std::int64_t;

// A thread per element of y[S, n]: the row of pair order[i], or zeros.
template <class T>
struct PermuteRows {
  T* y;
  const T* x;
  const int32_t* order;
  int64_t n, k;
  __device__ void operator()(int64_t e) const {
    const int32_t pair = order[e / n];
    y[e] = pair < 0 ? T(0.0f) : x[pair / k * n + e % n];
  }
};

// A thread per element of y[N, n]: the sum over the k pairs of a row, in order.
template <class T>
struct UnpermuteRows {
  T* y;
  const T* x;
  const int32_t* place;
  int64_t n, k;
  __device__ void operator()(int64_t e) const {
    const int32_t* from = place + e / n * k;
    Accumulator<T> sum = 0;
    for (int64_t j = 0; j < k; ++j)
      if (from[j] >= 0) sum += load(x[from[j] * n + e % n]);
    store<T>(y[e], sum);
  }
};

// A thread per element of y[rows, n].
template <class T>
struct ScaleRows {
  T* y;
  const T* x;
  const Accumulator<T>* scale;
  int64_t n;
  __device__ void operator()(int64_t i) const { store<T>(y[i], scale[i / n] * load(x[i])); }
};

constexpr int kSortThreads = 1024;

// How many of the threads before this one in the block have the flag set, and how many of all.
// All threads must call it.
struct FlagCounts {
  int before;
  int all;
};
__device__ FlagCounts count_flags(bool flag) {
  const int lane = threadIdx.x % kWarp;
  const int warp = threadIdx.x / kWarp;
  const unsigned flags = __ballot_sync(kAllLanes, flag);
  __shared__ int of_warp[kSortThreads / kWarp];
  // The last call's counts must have been read by all.
  __syncthreads();
  if (lane == 0) of_warp[warp] = __popc(flags);
  __syncthreads();
  FlagCounts counts{__popc(flags & ((1u << lane) - 1)), 0};
  for (int w = 0; w < kSortThreads / kWarp; ++w) {
    if (w < warp) counts.before += of_warp[w];
    counts.all += of_warp[w];
  }
  return counts;
}

// Block l places the pairs of local expert l; the last block, l = L, marks what no expert of this
// rank has, and fills the rest of `order` [places]. Every block counts the pairs of the experts
// before its own by itself, so that blocks do not wait for each other: two passes over the pairs,
// which stay in the L2 cache. Pairs of an expert keep their order, since a block goes through them
// in chunks from front to back. With `padded` > 0 every expert has so many places, and needs no
// counts of the experts before it.
__global__ void __launch_bounds__(kSortThreads)
    sort_kernel(int32_t* order, int32_t* place, int32_t* offsets, const int32_t* expert,
                int64_t pairs, int64_t places, int64_t first, int64_t experts, int64_t padded) {
  const int64_t mine = blockIdx.x;
  int begin = static_cast<int>(mine * padded);
  for (int64_t chunk = 0; padded == 0 && chunk < pairs; chunk += kSortThreads) {
    const int64_t i = chunk + threadIdx.x;
    const int64_t local = i < pairs ? expert[i] - first : experts;
    begin += count_flags(local >= 0 && local < mine).all;
  }
  if (threadIdx.x == 0) offsets[mine] = begin;
  if (mine == experts) {
    for (int64_t i = threadIdx.x; i < pairs; i += kSortThreads) {
      const int64_t local = expert[i] - first;
      if (local < 0 || local >= experts) place[i] = -1;
    }
    for (int64_t i = begin + threadIdx.x; i < places; i += kSortThreads) order[i] = -1;
    return;
  }
  const int64_t end = padded > 0 ? begin + padded : places;
  int next = begin;
  for (int64_t chunk = 0; chunk < pairs; chunk += kSortThreads) {
    const int64_t i = chunk + threadIdx.x;
    const bool here = i < pairs && expert[i] - first == mine;
    const FlagCounts counts = count_flags(here);
    const int at = next + counts.before;
    if (here) {
      place[i] = at < end ? at : -1;
      if (at < end) order[at] = static_cast<int32_t>(i);
    }
    next += counts.all;
  }
  if (padded > 0)
    for (int64_t i = next + threadIdx.x; i < end; i += kSortThreads) order[i] = -1;
}

constexpr int kDotThreads = 256;  // eight rows of a warp each

// out[i] = sum_j x[i, j] y[i, j]: a warp per row. Each lane adds every 32nd product in order, and
// the lanes' sums are added by a butterfly.
template <class T>
__global__ void __launch_bounds__(kDotThreads)
    row_dot_kernel(Accumulator<T>* out, const T* x, const T* y, int64_t rows, int64_t n) {
  const int64_t row = (int64_t{blockIdx.x} * kDotThreads + threadIdx.x) / kWarp;
  if (row >= rows) return;  // the whole warp returns
  const int lane = threadIdx.x % kWarp;
  Accumulator<T> sum = 0;
  for (int64_t j = lane; j < n; j += kWarp) sum += load(x[row * n + j]) * load(y[row * n + j]);
  sum = warp_sum(sum);
  if (lane == 0) out[row] = sum;
}

}  // namespace

void CudaKernels::do_sort_by_expert(Stream& stream, View order, View place, View offsets,
                                    ConstView expert, int64_t first, int64_t padded) {
  launch(stream, "sort_by_expert", {offsets.dim(0), dim3(kSortThreads)}, sort_kernel,
         order.data<int32_t>(), place.data<int32_t>(), offsets.data<int32_t>(),
         expert.data<int32_t>(), expert.numel(), order.dim(0), first, offsets.dim(0) - 1, padded);
}

void CudaKernels::do_permute_rows(Stream& stream, View y, ConstView x, ConstView order, int64_t k) {
  constexpr const char* op = "permute_rows";
  dispatch_float(x.dtype(), op, [&]<class T>(TypeTag<T>) {
    for_each(stream, op, y.numel(),
             PermuteRows<T>{y.data<T>(), x.data<T>(), order.data<int32_t>(), x.dim(1), k});
  });
}

void CudaKernels::do_unpermute_rows(Stream& stream, View y, ConstView x, ConstView place) {
  constexpr const char* op = "unpermute_rows";
  dispatch_float(x.dtype(), op, [&]<class T>(TypeTag<T>) {
    for_each(
        stream, op, y.numel(),
        UnpermuteRows<T>{y.data<T>(), x.data<T>(), place.data<int32_t>(), x.dim(1), place.dim(1)});
  });
}

void CudaKernels::do_scale_rows(Stream& stream, View y, ConstView x, ConstView scale) {
  constexpr const char* op = "scale_rows";
  dispatch_float(x.dtype(), op, [&]<class T>(TypeTag<T>) {
    for_each(stream, op, x.numel(),
             ScaleRows<T>{y.data<T>(), x.data<T>(), scale.data<Accumulator<T>>(), x.dim(1)});
  });
}

void CudaKernels::do_row_dot(Stream& stream, View out, ConstView x, ConstView y) {
  constexpr const char* op = "row_dot";
  dispatch_float(x.dtype(), op, [&]<class T>(TypeTag<T>) {
    const int64_t rows_per_block = kDotThreads / kWarp;
    launch(stream, op, {(x.dim(0) + rows_per_block - 1) / rows_per_block, dim3(kDotThreads)},
           row_dot_kernel<T>, out.data<Accumulator<T>>(), x.data<T>(), y.data<T>(), x.dim(0),
           x.dim(1));
  });
}

}  // namespace tessera::cuda
