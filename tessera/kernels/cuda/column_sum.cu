// Column sums: the gradient of a bias. Blocks of threads sum pieces of the rows, then the same
// kernel sums the pieces. Every sum has one order, given by the shape alone.
#include <algorithm>

#include "tessera/kernels/cuda/cuda_kernels.h"
#include "tessera/kernels/cuda/launch.cuh"
#include "tessera/kernels/cuda/math.cuh"
#include "tessera/kernels/cuda/vector.cuh"

namespace tessera::cuda {
namespace {

using std::int64_t;

constexpr int kLanes = 8;  // rows of threads in a block
constexpr int kAhead = 8;  // loads that a thread has under way

// x[rows, columns], `stride` elements from row to row, in pieces of `length` rows.
template <class T>
struct PiecesOfRows {
  const T* x;
  int64_t rows, columns, stride, length;
};

// The sums of kWidth columns over every kLanes-th row of [begin, end).
template <int kWidth, class T, class A = Accumulator<T>>
__device__ void sum_rows(A (&sums)[kWidth], const T* x, int64_t begin, int64_t end,
                         int64_t stride) {
  for (int64_t row = begin; row < end; row += kLanes * kAhead) {
    Pack<T, kWidth> ahead[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i)
      if (row + i * kLanes < end) ahead[i] = load_pack<kWidth>(x + (row + i * kLanes) * stride);
#pragma unroll
    for (int i = 0; i < kAhead; ++i)
      if (row + i * kLanes < end)
#pragma unroll
        for (int j = 0; j < kWidth; ++j) sums[j] += load(ahead[i].at[j]);
  }
}

// sums[pieces, columns]. A block of kWarp x kLanes threads takes kWarp packs of columns of one
// piece.
template <int kWidth, class T, class D>
__global__ void __launch_bounds__(kWarp* kLanes)
    column_sum_kernel(D* sums, PiecesOfRows<T> in, int64_t column_blocks, bool accumulate) {
  using A = Accumulator<T>;
  constexpr int kColumns = kWarp * kWidth;
  __shared__ A of_lane[kLanes][kColumns];
  const int64_t piece = blockIdx.x / column_blocks;
  const int64_t first = blockIdx.x % column_blocks * kColumns;
  const int64_t column = first + threadIdx.x * kWidth;
  A mine[kWidth] = {};
  if (column < in.columns)
    sum_rows(mine, in.x + column, piece * in.length + threadIdx.y,
             min(in.rows, (piece + 1) * in.length), in.stride);
  for (int j = 0; j < kWidth; ++j) of_lane[threadIdx.y][threadIdx.x * kWidth + j] = mine[j];
  __syncthreads();
  for (int j = static_cast<int>(threadIdx.y * kWarp + threadIdx.x); j < kColumns;
       j += kWarp * kLanes) {
    if (first + j >= in.columns) return;
    A sum = of_lane[0][j];
    for (int lane = 1; lane < kLanes; ++lane) sum += of_lane[lane][j];
    contribute<D>(sums[piece * in.columns + first + j], static_cast<Accumulator<D>>(sum),
                  accumulate);
  }
}

template <int kWidth, class T, class D>
void launch_sums(Stream& stream, D* sums, const PiecesOfRows<T>& in, int64_t pieces,
                 bool accumulate) {
  const int64_t column_blocks = (in.columns + kWarp * kWidth - 1) / (kWarp * kWidth);
  launch(stream, "column_sum", {pieces * column_blocks, dim3(kWarp, kLanes)},
         column_sum_kernel<kWidth, T, D>, sums, in, column_blocks, accumulate);
}

// Packs give the same bits as single elements: a column is summed in the same order.
template <class T, class D>
void sum_pieces(Stream& stream, D* sums, const PiecesOfRows<T>& in, int64_t pieces,
                bool accumulate) {
  constexpr int kWidth = kPackWidth<T>;
  const bool packed = can_pack<kWidth>(in.x) && in.stride % kWidth == 0 && in.columns % kWidth == 0;
  if (packed)
    launch_sums<kWidth>(stream, sums, in, pieces, accumulate);
  else
    launch_sums<1>(stream, sums, in, pieces, accumulate);
}

// How many rows make a piece, so that there are blocks for all of a GPU, each with enough rows to
// keep loads under way. Partial sums are at most one per block and column of it: 1 MiB.
template <class T>
int64_t piece_length(int64_t rows, int64_t columns) {
  constexpr int64_t kBlocks = 1024;
  constexpr int64_t kColumns = kWarp * kPackWidth<T>;
  const int64_t wanted = kBlocks / ((columns + kColumns - 1) / kColumns);
  const int64_t pieces = std::max<int64_t>(1, std::min(wanted, rows / (kLanes * kAhead)));
  return std::max<int64_t>(1, (rows + pieces - 1) / pieces);
}

}  // namespace

void CudaKernels::do_column_sum(Stream& stream, View db, ConstView dy, bool accumulate) {
  if (dy.dim(1) == 0) return;
  dispatch_float(dy.dtype(), "column_sum", [&]<class T>(TypeTag<T>) {
    dispatch_float(db.dtype(), "column_sum", [&]<class D>(TypeTag<D>) {
      using A = Accumulator<T>;
      const int64_t rows = dy.dim(0);
      const int64_t columns = dy.dim(1);
      const int64_t length = piece_length<T>(rows, columns);
      const int64_t pieces = std::max<int64_t>(1, (rows + length - 1) / length);
      const PiecesOfRows<T> in{dy.data<T>(), rows, columns, dy.stride(0), length};
      if (pieces == 1) return sum_pieces(stream, db.data<D>(), in, 1, accumulate);
      A* partials = static_cast<A*>(workspace_.view().raw());
      sum_pieces(stream, partials, in, pieces, false);
      sum_pieces(stream, db.data<D>(), PiecesOfRows<A>{partials, pieces, columns, columns, pieces},
                 1, accumulate);
    });
  });
}

}  // namespace tessera::cuda
