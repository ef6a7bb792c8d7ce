// Weight gradients of norms in two steps without atomics: sums over pieces of the rows, then the
// sum of the pieces. The order of every sum is given by the shape alone.
#pragma once

#include "tessera/kernels/cuda/norm_one_pass.cuh"

namespace tessera::cuda {

/// Inputs of the sums dw = sum dy h and db = sum dy, with h = (x - mean) rstd, and where the
/// partial sums of each piece go.
template <class T>
struct WeightSums {
  Accumulator<T>* partials;  ///< [pieces, 2, C]
  NormRows<const T> dy, x;
  const Accumulator<T>* stats;
  std::int64_t n;
  RowNumbers rows;
  Pieces pieces;
};

constexpr int kWeightLanes = 8;  // rows of threads in a block

// Partial sums of one piece and 32 columns per block, for rows of any alignment. Grid: pieces x
// groups of 32 columns; block: 32 x 8. Thread (x, y) sums column x over rows y, y + 8, ... of the
// piece: each row of threads reads 32 neighbouring elements. Then row 0 adds up the eight rows in
// order.
template <class T>
__global__ void __launch_bounds__(kWarp* kWeightLanes)
    norm_partials_kernel(WeightSums<T> in, std::int64_t column_blocks) {
  using A = Accumulator<T>;
  __shared__ A of_lane[2][kWeightLanes][kWarp];
  const std::int64_t n = in.n;
  const std::int64_t piece = blockIdx.x / column_blocks;
  const std::int64_t column = blockIdx.x % column_blocks * kWarp + threadIdx.x;
  const std::int64_t end = in.pieces.begin(piece + 1);
  A dw = 0;
  // One column per thread, 32 neighbouring columns per warp. Not packed: this is the fallback for
  // rows that packs cannot read.
  A db = 0;
  if (column < n)
    // h from the saved statistics; x is read again rather than h stored.
    for (std::int64_t row = in.pieces.begin(piece) + threadIdx.y; row < end; row += kWeightLanes) {
      const RowNumbers::Place place = in.rows.place(row);
      const A dy = load(in.dy[place][column]);
      dw += dy * ((load(in.x[place][column]) - in.stats[2 * row]) * in.stats[2 * row + 1]);
      db += dy;
    }
  // Threads behind the last column store zeros and reach the barrier, too.
  of_lane[0][threadIdx.y][threadIdx.x] = dw;
  of_lane[1][threadIdx.y][threadIdx.x] = db;
  __syncthreads();
  // Rows 1-7 have stored their sums; the barrier above makes them visible to row 0.
  if (threadIdx.y > 0 || column >= n) return;
  for (int lane = 1; lane < kWeightLanes; ++lane) {
    dw += of_lane[0][lane][threadIdx.x];
    db += of_lane[1][lane][threadIdx.x];
  }
  in.partials[2 * piece * n + column] = dw;
  in.partials[(2 * piece + 1) * n + column] = db;
}

/// Launches norm_partials_kernel.
template <class T>
void sum_pieces(Stream& stream, const char* op, const WeightSums<T>& in) {
  // n columns in groups of 32; each piece is read by as many blocks as there are groups.
  const std::int64_t column_blocks = (in.n + kWarp - 1) / kWarp;
  launch(stream, op, {in.pieces.count * column_blocks, dim3(kWarp, kWeightLanes)},
         norm_partials_kernel<T>, in, column_blocks);
}

constexpr int kSumLanes = 16;

// dw and, unless null, db from the partials [pieces, 2, C]. Block: 32 columns x 16 rows of threads;
// thread (x, y) adds pieces y, y + 16, ..., then row 0 adds up the rows in order. One thread writes
// dw, then db, so that they may be one tensor, which then holds db.
template <class D, class A>
__global__ void __launch_bounds__(kWarp* kSumLanes)
    sum_partials_kernel(D* dw, D* db, const A* partials, std::int64_t pieces, std::int64_t n,
                        bool accumulate) {
  __shared__ A of_lane[2][kSumLanes][kWarp];
  const std::int64_t column = std::int64_t{blockIdx.x} * kWarp + threadIdx.x;
  A sums[2] = {};
  // A group of 16 rows of threads adds up at most 396 pieces, 25 each.
  if (column < n)
  // Four independent loads in flight.
#pragma unroll 4
    for (std::int64_t piece = threadIdx.y; piece < pieces; piece += kSumLanes) {
      // A warp reads 32 neighbouring columns of one piece.
      sums[0] += partials[2 * piece * n + column];
      sums[1] += partials[(2 * piece + 1) * n + column];
    }
  of_lane[0][threadIdx.y][threadIdx.x] = sums[0];
  of_lane[1][threadIdx.y][threadIdx.x] = sums[1];
  __syncthreads();
  if (threadIdx.y > 0 || column >= n) return;
  for (int lane = 1; lane < kSumLanes; ++lane) {
    sums[0] += of_lane[0][lane][threadIdx.x];
    sums[1] += of_lane[1][lane][threadIdx.x];
  }
  // Weight gradients may be of another type than the sums; the addition is in the accumulator type
  // of D.
  contribute<D>(dw[column], static_cast<Accumulator<D>>(sums[0]), accumulate);
  if (db) contribute<D>(db[column], static_cast<Accumulator<D>>(sums[1]), accumulate);
}

/// Second step: the weight gradients in the type of dw, added to it if `accumulate`.
template <class A>
void finish_weight_gradients(Stream& stream, const char* op, const View& dw, const View& db,
                             const A* partials, std::int64_t pieces, bool accumulate) {
  const std::int64_t n = dw.dim(0);
  dispatch_float(dw.dtype(), op, [&]<class D>(TypeTag<D>) {
    launch(stream, op, {(n + kWarp - 1) / kWarp, dim3(kWarp, kSumLanes)}, sum_partials_kernel<D, A>,
           dw.data<D>(), db ? db.data<D>() : nullptr, partials, pieces, n, accumulate);
  });
}

}  // namespace tessera::cuda
