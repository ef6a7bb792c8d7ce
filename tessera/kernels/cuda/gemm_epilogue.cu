// What follows a matrix product, and the column sums that are a bias's gradient.
#include "tessera/kernels/cuda/cuda_kernels.h"
#include "tessera/kernels/cuda/launch.cuh"
#include "tessera/kernels/cuda/math.cuh"

namespace tessera::cuda {
namespace {

using std::int64_t;

// One element of d from the one of x at the same place.
template <class T, bool kSlope>
struct GeluOfRows {
  T* d;
  const T* x;
  int64_t columns, d_stride, x_stride;
  __device__ void operator()(int64_t i) const {
    const int64_t row = i / columns;
    const int64_t column = i % columns;
    const Accumulator<T> at = load(x[row * x_stride + column]);
    T& out = d[row * d_stride + column];
    store<T>(out, kSlope ? load(out) * gelu_derivative(at) : gelu(at));
  }
};

template <bool kSlope>
void gelu_of_rows(Stream& stream, const View& d, const ConstView& x) {
  dispatch_float(d.dtype(), "gemm", [&]<class T>(TypeTag<T>) {
    for_each(stream, "gemm", d.numel(),
             GeluOfRows<T, kSlope>{d.data<T>(), x.data<T>(), d.dim(1), d.stride(0), x.stride(0)});
  });
}

// A block of 32 x 32 threads sums 32 columns: each thread every 32nd row, then the block's rows of
// threads in order.
template <class T, class D>
__global__ void column_sum_kernel(D* db, const T* dy, int64_t rows, int64_t columns,
                                  int64_t row_stride, bool accumulate) {
  using A = Accumulator<T>;
  __shared__ A sums[kWarp][kWarp];
  const int64_t column = int64_t{blockIdx.x} * kWarp + threadIdx.x;
  A sum = 0;
  if (column < columns)
    for (int64_t row = threadIdx.y; row < rows; row += kWarp)
      sum += load(dy[row * row_stride + column]);
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y > 0 || column >= columns) return;
  for (int i = 1; i < kWarp; ++i) sum += sums[i][threadIdx.x];
  contribute<D>(db[column], static_cast<Accumulator<D>>(sum), accumulate);
}

}  // namespace

void gelu_of(Stream& stream, const View& d, const ConstView& x) {
  gelu_of_rows<false>(stream, d, x);
}
void times_gelu_slope(Stream& stream, const View& d, const ConstView& x) {
  gelu_of_rows<true>(stream, d, x);
}

void CudaKernels::do_column_sum(Stream& stream, View db, ConstView dy, bool accumulate) {
  dispatch_float(dy.dtype(), "column_sum", [&]<class T>(TypeTag<T>) {
    dispatch_float(db.dtype(), "column_sum", [&]<class D>(TypeTag<D>) {
      launch(stream, "column_sum", {(dy.dim(1) + kWarp - 1) / kWarp, dim3(kWarp, kWarp)},
             column_sum_kernel<T, D>, db.data<D>(), dy.data<T>(), dy.dim(0), dy.dim(1),
             dy.stride(0), accumulate);
    });
  });
}

}  // namespace tessera::cuda
