// Mixture of experts: the top-1 router, the sort of rows by expert, and the weights of rows. The
// products with the experts' matrices are in grouped_gemm.cu.
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

// The sum of e^(x_j - maximum) over a row of logits, in order.
template <class A>
__device__ A exp_sum(const A* row, int64_t experts, A maximum) {
  A sum = 0;
  for (int64_t j = 0; j < experts; ++j) sum += exp(row[j] - maximum);
  return sum;
}

// A thread per row: a row has as many logits as there are experts.
template <class A>
struct Route {
  int32_t* expert;
  A* probability;
  const A* logits;
  int64_t experts;
  __device__ void operator()(int64_t i) const {
    const A* row = logits + i * experts;
    int32_t best = 0;
    for (int32_t j = 1; j < experts; ++j)
      if (row[j] > row[best]) best = j;
    expert[i] = best;
    probability[i] = A(1) / exp_sum(row, experts, row[best]);
  }
};

// The softmax is computed again from the logits; see cpu/moe.cpp for the formula.
template <class T, class A = Accumulator<T>>
struct RouteBackward {
  T* dlogits;
  const A* dprobability;
  const int32_t* expert;
  const A* logits;
  int64_t experts;
  __device__ void operator()(int64_t i) const {
    const A* row = logits + i * experts;
    const int32_t chosen = expert[i];
    const A scale = A(1) / exp_sum(row, experts, row[chosen]);
    const A gradient = dprobability[i] * scale;
    for (int64_t j = 0; j < experts; ++j) {
      const A p = exp(row[j] - row[chosen]) * scale;
      store<T>(dlogits[i * experts + j], gradient * (A(j == chosen ? 1 : 0) - p));
    }
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

// Block l places the rows of local expert l; the last block, l = L, marks what no expert of this
// rank has. Every block counts the rows of the experts before its own by itself, so that blocks do
// not wait for each other: two passes over M integers, which stay in the L2 cache. Rows of an
// expert keep their order, since a block goes through them in chunks from front to back.
__global__ void __launch_bounds__(kSortThreads)
    sort_kernel(int32_t* order, int32_t* place, int32_t* offsets, const int32_t* expert,
                int64_t rows, int64_t first, int64_t experts) {
  const int64_t mine = blockIdx.x;
  int begin = 0;
  for (int64_t chunk = 0; chunk < rows; chunk += kSortThreads) {
    const int64_t i = chunk + threadIdx.x;
    const int64_t local = i < rows ? expert[i] - first : experts;
    begin += count_flags(local >= 0 && local < mine).all;
  }
  if (threadIdx.x == 0) offsets[mine] = begin;
  if (mine == experts) {
    for (int64_t i = threadIdx.x; i < rows; i += kSortThreads) {
      const int64_t local = expert[i] - first;
      if (local < 0 || local >= experts) place[i] = -1;
      if (i >= begin) order[i] = -1;
    }
    return;
  }
  int next = begin;
  for (int64_t chunk = 0; chunk < rows; chunk += kSortThreads) {
    const int64_t i = chunk + threadIdx.x;
    const bool here = i < rows && expert[i] - first == mine;
    const FlagCounts counts = count_flags(here);
    if (here) {
      place[i] = next + counts.before;
      order[next + counts.before] = static_cast<int32_t>(i);
    }
    next += counts.all;
  }
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

void CudaKernels::do_route_top1(Stream& stream, View expert, View probability, ConstView logits) {
  const auto route = [&]<class A>(TypeTag<A>) {
    for_each(
        stream, "route_top1", logits.dim(0),
        Route<A>{expert.data<int32_t>(), probability.data<A>(), logits.data<A>(), logits.dim(1)});
  };
  if (logits.dtype() == DType::f64)
    route(TypeTag<double>{});
  else
    route(TypeTag<float>{});
}

void CudaKernels::do_route_top1_backward(Stream& stream, View dlogits, ConstView dprobability,
                                         ConstView expert, ConstView logits) {
  constexpr const char* op = "route_top1_backward";
  dispatch_float(dlogits.dtype(), op, [&]<class T>(TypeTag<T>) {
    using A = Accumulator<T>;
    for_each(stream, op, logits.dim(0),
             RouteBackward<T>{dlogits.data<T>(), dprobability.data<A>(), expert.data<int32_t>(),
                              logits.data<A>(), logits.dim(1)});
  });
}

void CudaKernels::do_sort_by_expert(Stream& stream, View order, View place, View offsets,
                                    ConstView expert, int64_t first) {
  launch(stream, "sort_by_expert", {offsets.dim(0), dim3(kSortThreads)}, sort_kernel,
         order.data<int32_t>(), place.data<int32_t>(), offsets.data<int32_t>(),
         expert.data<int32_t>(), expert.dim(0), first, offsets.dim(0) - 1);
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
