// Ops of latent attention besides attention itself: sums over heads, and the softmax of scores that
// are computed as a matrix product.
#include <algorithm>

#include "tessera/kernels/cuda/cuda_kernels.h"
#include "tessera/kernels/cuda/launch.cuh"
#include "tessera/kernels/cuda/math.cuh"

namespace tessera::cuda {
namespace {

using std::int64_t;

// A thread per element of y[N, n]: the sum over the heads, in order.
template <class T>
struct SumHeads {
  T* y;
  const T* x;
  int64_t y_stride, x_stride, head_stride;
  int64_t heads, n;
  __device__ void operator()(int64_t e) const {
    const int64_t row = e / n, channel = e - row * n;
    const T* from = x + row * x_stride + channel;
    Accumulator<T> sum = 0;
    for (int64_t h = 0; h < heads; ++h) sum += load(from[h * head_stride]);
    store<T>(y[row * y_stride + channel], sum);
  }
};

constexpr int kSoftmaxThreads = 256;

// A block per row, which stays in the cache between the three passes.
template <class T, class A = Accumulator<T>>
__global__ void __launch_bounds__(kSoftmaxThreads) softmax_kernel(T* y, const A* x, int64_t n) {
  const A* from = x + blockIdx.x * n;
  A maximum = -INFINITY;
  for (int64_t j = threadIdx.x; j < n; j += kSoftmaxThreads) maximum = fmax(maximum, from[j]);
  maximum = block_max(maximum);
  A sum = 0;
  for (int64_t j = threadIdx.x; j < n; j += kSoftmaxThreads) sum += exp(from[j] - maximum);
  sum = block_sum(sum);
  for (int64_t j = threadIdx.x; j < n; j += kSoftmaxThreads)
    store<T>(y[blockIdx.x * n + j], exp(from[j] - maximum) / sum);
}

}  // namespace

void CudaKernels::do_sum_heads(Stream& stream, View y, ConstView x) {
  constexpr const char* op = "sum_heads";
  dispatch_float(x.dtype(), op, [&]<class T>(TypeTag<T>) {
    for_each(stream, op, y.numel(),
             SumHeads<T>{y.data<T>(), x.data<T>(), y.stride(0), x.stride(0), x.stride(1), x.dim(1),
                         x.dim(2)});
  });
}

void CudaKernels::do_softmax_rows(Stream& stream, View y, ConstView x) {
  constexpr const char* op = "softmax_rows";
  dispatch_float(y.dtype(), op, [&]<class T>(TypeTag<T>) {
    using A = Accumulator<T>;
    launch(stream, op, {x.dim(0), dim3(kSoftmaxThreads)}, softmax_kernel<T, A>, y.data<T>(),
           x.data<A>(), x.dim(1));
  });
}

}  // namespace tessera::cuda
