// Gradients of norms. Each block of threads takes a range of the rows, a piece: one pass over dy
// and x gives dx and the piece's sums for the weight gradients; a second kernel adds up the pieces.
// Rows that are too long for registers, or do not consist of packs, take one pass for dx and one
// for the sums. Every sum has one order, given by shapes and alignment.
#include "tessera/kernels/cuda/cuda_kernels.h"
#include "tessera/kernels/cuda/norm_one_pass.cuh"

namespace tessera::cuda {
namespace {

using std::int64_t;

constexpr const char* kOp = "norm_backward";

// Any row, read more than once: a block per row.
template <class T>
__global__ void __launch_bounds__(256) norm_input_gradient_kernel(Gradient<T> in) {
  using A = Accumulator<T>;
  const int64_t row = blockIdx.x;
  const int64_t n = in.weights.n;
  const RowNumbers::Place place = in.rows.place(row);
  T* dx = in.dx[place];
  const T* dy = in.dy[place];
  const T* x = in.x[place];
  const A mean = in.stats[2 * row];
  const A rstd = in.stats[2 * row + 1];
  RowSums<A> sums;
  for (int64_t j = threadIdx.x; j < n; j += blockDim.x) {
    const A g = load(dy[j]) * load(in.weights.w[j]);
    sums.g += g;
    sums.gh += g * ((load(x[j]) - mean) * rstd);
  }
  const A mean_g = in.weights.centred ? block_sum(sums.g) / static_cast<A>(n) : A(0);
  const A mean_gh = block_sum(sums.gh) / static_cast<A>(n);
  for (int64_t j = threadIdx.x; j < n; j += blockDim.x) {
    const A g = load(dy[j]) * load(in.weights.w[j]);
    const A h = (load(x[j]) - mean) * rstd;
    contribute<T>(dx[j], rstd * (g - mean_g - h * mean_gh), in.accumulate);
  }
}

constexpr int kLanes = 8;  // rows of threads in a block of norm_partials_kernel

// Blocks: pieces x groups of 32 columns.
template <class T>
__global__ void __launch_bounds__(kWarp* kLanes)
    norm_partials_kernel(Gradient<T> in, int64_t column_blocks) {
  using A = Accumulator<T>;
  __shared__ A of_lane[2][kLanes][kWarp];
  const int64_t n = in.weights.n;
  const int64_t piece = blockIdx.x / column_blocks;
  const int64_t column = blockIdx.x % column_blocks * kWarp + threadIdx.x;
  const int64_t end = in.pieces.begin(piece + 1);
  A dw = 0;
  A db = 0;
  if (column < n)
    for (int64_t row = in.pieces.begin(piece) + threadIdx.y; row < end; row += kLanes) {
      const RowNumbers::Place place = in.rows.place(row);
      const A dy = load(in.dy[place][column]);
      dw += dy * ((load(in.x[place][column]) - in.stats[2 * row]) * in.stats[2 * row + 1]);
      db += dy;
    }
  of_lane[0][threadIdx.y][threadIdx.x] = dw;
  of_lane[1][threadIdx.y][threadIdx.x] = db;
  __syncthreads();
  if (threadIdx.y > 0 || column >= n) return;
  for (int lane = 1; lane < kLanes; ++lane) {
    dw += of_lane[0][lane][threadIdx.x];
    db += of_lane[1][lane][threadIdx.x];
  }
  in.partials[2 * piece * n + column] = dw;
  in.partials[(2 * piece + 1) * n + column] = db;
}

constexpr int kSumLanes = 16;

// dw and, unless null, db from the partials [pieces, 2, C]; a block takes 32 columns. One thread
// writes dw, then db, so that they may be one tensor, which then holds db.
template <class D, class A>
__global__ void __launch_bounds__(kWarp* kSumLanes)
    sum_partials_kernel(D* dw, D* db, const A* partials, int64_t pieces, int64_t n,
                        bool accumulate) {
  __shared__ A of_lane[2][kSumLanes][kWarp];
  const int64_t column = int64_t{blockIdx.x} * kWarp + threadIdx.x;
  A sums[2] = {};
  if (column < n)
#pragma unroll 4
    for (int64_t piece = threadIdx.y; piece < pieces; piece += kSumLanes) {
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
  contribute<D>(dw[column], static_cast<Accumulator<D>>(sums[0]), accumulate);
  if (db) contribute<D>(db[column], static_cast<Accumulator<D>>(sums[1]), accumulate);
}

template <class T, int kHeld>
void one_pass(Stream& stream, const Gradient<T>& in, int64_t threads) {
  const int64_t at_once = std::max<int64_t>(1, 256 / threads);
  const std::size_t shared =
      at_once == 1 ? 0 : static_cast<std::size_t>(2 * in.weights.n) * sizeof(Accumulator<T>);
  launch(stream, kOp,
         {in.pieces.count, dim3(static_cast<unsigned>(threads), static_cast<unsigned>(at_once)),
          shared},
         norm_backward_kernel<T, kHeld>, in);
}

// dx and the partial sums.
template <class T>
void input_gradient(Stream& stream, const Gradient<T>& in) {
  constexpr int kWidth = kPackWidth<T>;
  const int64_t n = in.weights.n;
  const int64_t chunks = n / kWidth;
  const bool packed = in.weights.packs() && in.dx.packs() && in.dy.packs() && in.x.packs() &&
                      can_pack<kWidth>(in.partials);
  if (packed && chunks <= kWarp)
    return one_pass<T, 1>(stream, in, chunks <= 8 ? 8 : chunks <= 16 ? 16 : kWarp);
  if (packed && chunks > 2 * kWarp && chunks <= 3 * kWarp) return one_pass<T, 3>(stream, in, kWarp);
  if (packed && chunks <= 2 * kMostThreads<2>)
    return one_pass<T, 2>(stream, in, (chunks + 2 * kWarp - 1) / (2 * kWarp) * kWarp);
  // The sums first, since dx may take the place of dy.
  const int64_t column_blocks = (n + kWarp - 1) / kWarp;
  launch(stream, kOp, {in.pieces.count * column_blocks, dim3(kWarp, kLanes)},
         norm_partials_kernel<T>, in, column_blocks);
  const int64_t threads = std::clamp<int64_t>((n + kWarp - 1) / kWarp * kWarp, kWarp, 256);
  launch(stream, kOp, {in.rows.count, dim3(static_cast<unsigned>(threads))},
         norm_input_gradient_kernel<T>, in);
}

}  // namespace

std::size_t CudaKernels::norm_workspace_bytes(int64_t rows, int64_t channels, DType dtype) const {
  return static_cast<std::size_t>(Pieces(rows, channels).count * 2 * channels) *
         size_of(accumulator_of(dtype));
}

void CudaKernels::do_norm_backward(Stream& stream, View dx, View dw, View db, ConstView dy,
                                   ConstView x, ConstView stats, ConstView w, const NormSpec& spec,
                                   bool accumulate_dx, bool accumulate_dw, Workspace workspace) {
  dispatch_float(x.dtype(), kOp, [&]<class T>(TypeTag<T>) {
    using A = Accumulator<T>;
    const int64_t n = w.dim(0);
    const RowNumbers rows(x);
    const Gradient<T> in{NormRows<T>(dx),
                         static_cast<A*>(workspace.raw()),
                         NormRows<const T>(dy),
                         NormRows<const T>(x),
                         stats.data<A>(),
                         {w, {}, spec},
                         rows,
                         {rows.count, n},
                         accumulate_dx};
    input_gradient(stream, in);
    dispatch_float(dw.dtype(), kOp, [&]<class D>(TypeTag<D>) {
      launch(stream, kOp, {(n + kWarp - 1) / kWarp, dim3(kWarp, kSumLanes)},
             sum_partials_kernel<D, A>, dw.data<D>(), db ? db.data<D>() : nullptr, in.partials,
             in.pieces.count, n, accumulate_dw);
    });
  });
}

}  // namespace tessera::cuda
