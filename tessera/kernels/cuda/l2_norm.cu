// RMSNorm without weights, of the heads of queries and keys. With r = 1 / sqrt(mean x^2 + epsilon)
// and h = r x:
//
//   y = h,   dx = r (dy - h mean(dy h))
//
// A warp computes one row x[i, g] of x [N, G, C]; heads have a few hundred channels.
#include "tessera/kernels/cuda/cuda_kernels.h"
#include "tessera/kernels/cuda/launch.cuh"
#include "tessera/kernels/cuda/math.cuh"

namespace tessera::cuda {
namespace {

using std::int64_t;

constexpr int kNormThreads = 256;
constexpr int kNormRows = kNormThreads / kWarp;

// The rows of a tensor [N, G, C].
template <class T>
struct HeadRows {
  T* data;
  int64_t stride, head_stride;
  __device__ T* row(int64_t i, int64_t g) const { return data + i * stride + g * head_stride; }
};

template <class T, class V>
HeadRows<T> rows_of(const V& x) {
  return {x.template data<std::remove_const_t<T>>(), x.stride(0), x.stride(1)};
}

struct NormSize {
  int64_t rows, groups, n;
  double epsilon;
};

// 1 / sqrt(mean x^2 + epsilon), in all lanes.
template <class T, class A = Accumulator<T>>
__device__ A inverse_root(const T* x, const NormSize& size) {
  A squares = 0;
  for (int64_t j = threadIdx.x % kWarp; j < size.n; j += kWarp) squares += load(x[j]) * load(x[j]);
  squares = warp_sum(squares);
  return A(1) / sqrt(squares / static_cast<A>(size.n) + static_cast<A>(size.epsilon));
}

template <class T>
__global__ void __launch_bounds__(kNormThreads)
    l2_forward_kernel(HeadRows<T> y, HeadRows<const T> x, NormSize size) {
  const int64_t at = int64_t{blockIdx.x} * kNormRows + threadIdx.x / kWarp;
  if (at >= size.rows * size.groups) return;  // the whole warp returns
  const T* const from = x.row(at / size.groups, at % size.groups);
  T* const to = y.row(at / size.groups, at % size.groups);
  const Accumulator<T> r = inverse_root(from, size);
  for (int64_t j = threadIdx.x % kWarp; j < size.n; j += kWarp) store<T>(to[j], r * load(from[j]));
}

template <class T>
__global__ void __launch_bounds__(kNormThreads)
    l2_backward_kernel(HeadRows<T> dx, HeadRows<const T> dy, HeadRows<const T> x, NormSize size) {
  using A = Accumulator<T>;
  const int64_t at = int64_t{blockIdx.x} * kNormRows + threadIdx.x / kWarp;
  if (at >= size.rows * size.groups) return;
  const T* const from = x.row(at / size.groups, at % size.groups);
  const T* const upstream = dy.row(at / size.groups, at % size.groups);
  T* const to = dx.row(at / size.groups, at % size.groups);
  const A r = inverse_root(from, size);
  A dot = 0;
  for (int64_t j = threadIdx.x % kWarp; j < size.n; j += kWarp)
    dot += load(upstream[j]) * (r * load(from[j]));
  const A mean = warp_sum(dot) / static_cast<A>(size.n);
  // A lane reads each element of dy before it writes dx there, which may be the same memory.
  for (int64_t j = threadIdx.x % kWarp; j < size.n; j += kWarp)
    store<T>(to[j], r * (load(upstream[j]) - r * load(from[j]) * mean));
}

Grid norm_grid(const NormSize& size) {
  return {(size.rows * size.groups + kNormRows - 1) / kNormRows, dim3(kNormThreads)};
}

NormSize size_of(const ConstView& x, double epsilon) {
  return {x.dim(0), x.dim(1), x.dim(2), epsilon};
}

}  // namespace

void CudaKernels::do_l2_norm_forward(Stream& stream, View y, ConstView x, double epsilon) {
  constexpr const char* op = "l2_norm_forward";
  dispatch_float(x.dtype(), op, [&]<class T>(TypeTag<T>) {
    const NormSize size = size_of(x, epsilon);
    launch(stream, op, norm_grid(size), l2_forward_kernel<T>, rows_of<T>(y), rows_of<const T>(x),
           size);
  });
}

void CudaKernels::do_l2_norm_backward(Stream& stream, View dx, ConstView dy, ConstView x,
                                      double epsilon) {
  constexpr const char* op = "l2_norm_backward";
  dispatch_float(x.dtype(), op, [&]<class T>(TypeTag<T>) {
    const NormSize size = size_of(x, epsilon);
    launch(stream, op, norm_grid(size), l2_backward_kernel<T>, rows_of<T>(dx), rows_of<const T>(dy),
           rows_of<const T>(x), size);
  });
}

}  // namespace tessera::cuda
