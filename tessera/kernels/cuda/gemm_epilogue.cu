// What follows a matrix product, and the column sums that are a bias's gradient.
#include "tessera/kernels/cuda/cuda_kernels.h"
#include "tessera/kernels/cuda/launch.cuh"
#include "tessera/kernels/cuda/math.cuh"

namespace tessera::cuda {
namespace {

using std::int64_t;

// One element of d, after the product was rounded into it.
template <class T>
struct Finish {
  Epilogue epilogue;
  T* d;
  T* aux;
  const T* bias;
  int64_t columns, d_stride, aux_stride;
  __device__ void operator()(int64_t i) const {
    const int64_t row = i / columns;
    const int64_t column = i % columns;
    T& out = d[row * d_stride + column];
    Accumulator<T> value = load(out);
    if (bias) value += load(bias[column]);
    if (epilogue == Epilogue::bias_gelu) {
      T& before = aux[row * aux_stride + column];
      store<T>(before, value);
      value = gelu(load(before));
    } else if (epilogue == Epilogue::dgelu) {
      value *= gelu_derivative(load(aux[row * aux_stride + column]));
    }
    store<T>(out, value);
  }
};

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

void apply_epilogue(Stream& stream, const View& d, const GemmSpec& spec) {
  const bool has_bias = spec.bias && spec.epilogue != Epilogue::dgelu;
  dispatch_float(d.dtype(), "gemm", [&]<class T>(TypeTag<T>) {
    for_each(stream, "gemm", d.numel(),
             Finish<T>{spec.epilogue, d.data<T>(), spec.aux ? spec.aux.data<T>() : nullptr,
                       has_bias ? spec.bias.data<T>() : nullptr, d.dim(1), d.stride(0),
                       spec.aux ? spec.aux.stride(0) : 0});
  });
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
