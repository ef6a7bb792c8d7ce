// Column sums db[c] = sum over rows of dy[r, c]: the gradient of a bias. Blocks sum pieces of the
// rows into partials [pieces, columns], then the same kernel sums the pieces. The order of every
// sum is given by the shape alone, without atomics.
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

// x [rows, columns] with `stride` elements from row to row, in pieces of `length` rows.
template <class T>
struct PiecesOfRows {
  const T* x;
  int64_t rows, columns, stride, length;
};

// The sums of kWidth columns over rows begin, begin + 8, ... below end, in this order. Eight loads
// are issued before the first is added, which hides memory latency.
template <int kWidth, class T, class A = Accumulator<T>>
__device__ void sum_rows(A (&sums)[kWidth], const T* x, int64_t begin, int64_t end,
                         int64_t stride) {
  for (int64_t row = begin; row < end; row += kLanes * kAhead) {
    // Kept in the type of memory: 16 bytes each, 32 registers for all eight.
    Pack<T, kWidth> ahead[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i)
      if (row + i * kLanes < end) ahead[i] = load_pack<kWidth>(x + (row + i * kLanes) * stride);
        // Added in the order of rows, the same as without the look-ahead.
#pragma unroll
    for (int i = 0; i < kAhead; ++i)
      if (row + i * kLanes < end)
#pragma unroll
        for (int j = 0; j < kWidth; ++j) sums[j] += load(ahead[i].at[j]);
  }
}

// sums [pieces, columns]. Grid: pieces x groups of 32 kWidth columns; block: 32 x 8. Thread (x, y)
// sums its kWidth columns over every eighth row of the piece, so that a warp reads 32 neighbouring
// packs of one row; then the eight rows of threads are added in order through shared memory.
template <int kWidth, class T, class D>
__global__ void __launch_bounds__(kWarp* kLanes)
    column_sum_kernel(D* sums, PiecesOfRows<T> in, int64_t column_blocks, bool accumulate) {
  using A = Accumulator<T>;
  constexpr int kColumns = kWarp * kWidth;
  // [row of threads][column]: each row of threads writes neighbouring columns.
  __shared__ A of_lane[kLanes][kColumns];
  // The pieces of one group of columns are column_blocks apart in the grid; blocks that run at the
  // same time mostly read neighbouring columns of the same rows.
  const int64_t piece = blockIdx.x / column_blocks;
  const int64_t first = blockIdx.x % column_blocks * kColumns;
  const int64_t column = first + threadIdx.x * kWidth;
  A mine[kWidth] = {};
  if (column < in.columns)
    sum_rows(mine, in.x + column, piece * in.length + threadIdx.y,
             min(in.rows, (piece + 1) * in.length), in.stride);
  // Threads behind the last column store zeros and reach the barrier, too.
  for (int j = 0; j < kWidth; ++j) of_lane[threadIdx.y][threadIdx.x * kWidth + j] = mine[j];
  __syncthreads();
  // All 256 threads take part in the final additions, one column each at a time.
  for (int j = static_cast<int>(threadIdx.y * kWarp + threadIdx.x); j < kColumns;
       j += kWarp * kLanes) {
    // No barrier follows, so that threads behind the last column may leave.
    if (first + j >= in.columns) return;
    // Lanes in order: the sum of a column has one order for a given shape.
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

// Packs give the same bits as single elements: each column is summed in the same order.
template <class T, class D>
void sum_pieces(Stream& stream, D* sums, const PiecesOfRows<T>& in, int64_t pieces,
                bool accumulate) {
  constexpr int kWidth = kPackWidth<T>;
  // Rows of whole packs only; other shapes read single elements, still coalesced over a warp.
  const bool packed = can_pack<kWidth>(in.x) && in.stride % kWidth == 0 && in.columns % kWidth == 0;
  if (packed)
    launch_sums<kWidth>(stream, sums, in, pieces, accumulate);
  else
    launch_sums<1>(stream, sums, in, pieces, accumulate);
}

// The number of rows in a piece: about 1024 blocks keep all SMs of a GPU busy, each with at least
// 64 rows, so that loads are in flight. There is at most one partial sum per block and column: 1
// MiB of the workspace.
template <class T>
int64_t piece_length(int64_t rows, int64_t columns) {
  constexpr int64_t kBlocks = 1024;
  constexpr int64_t kColumns = kWarp * kPackWidth<T>;
  // Blocks per group of columns that are wanted for 1024 in total.
  const int64_t wanted = kBlocks / ((columns + kColumns - 1) / kColumns);
  const int64_t pieces = std::max<int64_t>(1, std::min(wanted, rows / (kLanes * kAhead)));
  return std::max<int64_t>(1, (rows + pieces - 1) / pieces);
}

}  // namespace

void CudaKernels::do_column_sum(Stream& stream, View db, ConstView dy, bool accumulate) {
  // Nothing to write. With columns but no rows the sums are zeros, which one piece of no rows
  // gives.
  if (dy.dim(1) == 0) return;
  dispatch_float(dy.dtype(), "column_sum", [&]<class T>(TypeTag<T>) {
    dispatch_float(db.dtype(), "column_sum", [&]<class D>(TypeTag<D>) {
      using A = Accumulator<T>;
      const int64_t rows = dy.dim(0);
      const int64_t columns = dy.dim(1);
      const int64_t length = piece_length<T>(rows, columns);
      const int64_t pieces = std::max<int64_t>(1, (rows + length - 1) / length);
      const PiecesOfRows<T> in{dy.data<T>(), rows, columns, dy.stride(0), length};
      // One piece needs no partial sums and is written directly.
      if (pieces == 1) return sum_pieces(stream, db.data<D>(), in, 1, accumulate);
      // The workspace of the object; the second stage reads it on the same stream, so no
      // synchronisation is needed.
      A* partials = static_cast<A*>(workspace_.view().raw());
      // The second stage reads partials [pieces, columns] as one piece and rounds once to the type
      // of db.
      sum_pieces(stream, partials, in, pieces, false);
      sum_pieces(stream, db.data<D>(), PiecesOfRows<A>{partials, pieces, columns, columns, pieces},
                 1, accumulate);
    });
  });
}

}  // namespace tessera::cuda
