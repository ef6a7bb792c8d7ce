// Biases of experts. Rows are sorted by expert, so that those of expert l are
// [offsets[l], offsets[l + 1]); behind a down projection a bias counts with the weight of the row.
// Offsets stay on the device: a row finds its expert by a binary search.
#include "tessera/kernels/cuda/cuda_kernels.h"
#include "tessera/kernels/cuda/launch.cuh"
#include "tessera/kernels/cuda/math.cuh"

namespace tessera::cuda {
namespace {

using std::int32_t;
using std::int64_t;

// Where the rows of each expert begin.
struct ExpertRows {
  const int32_t* offsets;
  int64_t experts;
  // The expert of a row; `experts` for rows behind the last one.
  __device__ int64_t expert_of(int64_t row) const {
    int64_t low = 0, high = experts;  // the first expert whose rows end behind this one
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      if (offsets[middle + 1] <= row)
        low = middle + 1;
      else
        high = middle;
    }
    return low;
  }
};

ExpertRows expert_rows(const ConstView& offsets) {
  return {offsets.data<int32_t>(), offsets.dim(0) - 1};
}

// A thread per element of y[S, n].
template <class T>
struct AddBias {
  T* y;
  const T* bias;
  const Accumulator<T>* weight;  ///< null: 1
  ExpertRows rows;
  int64_t n;
  __device__ void operator()(int64_t e) const {
    const int64_t row = e / n;
    const int64_t expert = rows.expert_of(row);
    if (expert == rows.experts) return;
    const Accumulator<T> p = weight != nullptr ? weight[row] : Accumulator<T>(1);
    store<T>(y[e], load(y[e]) + p * load(bias[expert * n + e % n]));
  }
};

constexpr int kBiasColumns = 32;
constexpr int kBiasLanes = 8;

// A block per expert and 32 columns; thread (x, y) adds every eighth row of a column in order, then
// the eight sums are added in order.
template <class T, class D>
__global__ void __launch_bounds__(kBiasColumns* kBiasLanes)
    bias_gradient_kernel(D* dbias, const T* dy, const int32_t* offsets,
                         const Accumulator<T>* weight, int64_t n, int64_t blocks, bool accumulate) {
  using A = Accumulator<T>;
  __shared__ A of_lane[kBiasLanes][kBiasColumns];
  const int64_t expert = blockIdx.x / blocks;
  const int64_t column = blockIdx.x % blocks * kBiasColumns + threadIdx.x;
  A sum = 0;
  if (column < n)
    for (int64_t i = offsets[expert] + threadIdx.y; i < offsets[expert + 1]; i += kBiasLanes)
      sum += (weight != nullptr ? weight[i] : A(1)) * load(dy[i * n + column]);
  of_lane[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y > 0 || column >= n) return;
  for (int lane = 1; lane < kBiasLanes; ++lane) sum += of_lane[lane][threadIdx.x];
  contribute<D>(dbias[expert * n + column], static_cast<Accumulator<D>>(sum), accumulate);
}

constexpr int kDotThreads = 256;

// dweight[i] += dy[i] . bias of its expert: a warp per row.
template <class T>
__global__ void __launch_bounds__(kDotThreads)
    bias_dot_kernel(Accumulator<T>* dweight, const T* dy, const T* bias, ExpertRows rows,
                    int64_t count, int64_t n) {
  const int64_t row = (int64_t{blockIdx.x} * kDotThreads + threadIdx.x) / kWarp;
  if (row >= count) return;  // the whole warp returns
  const int64_t expert = rows.expert_of(row);
  if (expert == rows.experts) return;
  Accumulator<T> sum = 0;
  for (int64_t j = threadIdx.x % kWarp; j < n; j += kWarp)
    sum += load(dy[row * n + j]) * load(bias[expert * n + j]);
  sum = warp_sum(sum);
  if (threadIdx.x % kWarp == 0) dweight[row] += sum;
}

}  // namespace

void CudaKernels::do_add_expert_bias(Stream& stream, View y, ConstView bias, ConstView offsets,
                                     ConstView weight) {
  constexpr const char* op = "add_expert_bias";
  dispatch_float(y.dtype(), op, [&]<class T>(TypeTag<T>) {
    for_each(
        stream, op, y.numel(),
        AddBias<T>{y.data<T>(), bias.data<T>(), weight ? weight.data<Accumulator<T>>() : nullptr,
                   expert_rows(offsets), y.dim(1)});
  });
}

void CudaKernels::do_expert_bias_gradient(Stream& stream, View dbias, ConstView dy,
                                          ConstView offsets, ConstView weight, bool accumulate) {
  constexpr const char* op = "expert_bias_gradient";
  dispatch_float(dy.dtype(), op, [&]<class T>(TypeTag<T>) {
    dispatch_type_or_accumulator<T>(dbias.dtype(), [&]<class D>(TypeTag<D>) {
      const int64_t n = dy.dim(1), blocks = (n + kBiasColumns - 1) / kBiasColumns;
      launch(stream, op, {dbias.dim(0) * blocks, dim3(kBiasColumns, kBiasLanes)},
             bias_gradient_kernel<T, D>, dbias.data<D>(), dy.data<T>(), offsets.data<int32_t>(),
             weight ? weight.data<Accumulator<T>>() : nullptr, n, blocks, accumulate);
    });
  });
}

void CudaKernels::do_expert_bias_dot(Stream& stream, View dweight, ConstView dy, ConstView bias,
                                     ConstView offsets) {
  constexpr const char* op = "expert_bias_dot";
  dispatch_float(dy.dtype(), op, [&]<class T>(TypeTag<T>) {
    const int64_t rows_per_block = kDotThreads / kWarp;
    launch(stream, op, {(dy.dim(0) + rows_per_block - 1) / rows_per_block, dim3(kDotThreads)},
           bias_dot_kernel<T>, dweight.data<Accumulator<T>>(), dy.data<T>(), bias.data<T>(),
           expert_rows(offsets), dy.dim(0), dy.dim(1));
  });
}

}  // namespace tessera::cuda
