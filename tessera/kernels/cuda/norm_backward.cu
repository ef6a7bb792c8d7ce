// Backward pass of layer norm and RMS norm. With h = (x - mean) rstd and g = dy (w + offset):
//
//   dx = rstd (g - mean(g) - h mean(g h))     mean over the channels; RMS norm lacks mean(g)
//   dw = sum over rows of dy h,  db = sum over rows of dy
//
// Rows are divided into pieces, one per block. One pass over dy and x gives dx and the piece's
// partial dw and db (norm_one_pass.cuh); a second kernel adds up the pieces (norm_weight_sums.cuh).
// Rows that are too long for registers, or cannot be read in packs, take one kernel for the partial
// sums and one for dx. The order of every sum is given by shapes and alignment, without atomics.
#include "tessera/kernels/cuda/cuda_kernels.h"
#include "tessera/kernels/cuda/norm_weight_sums.cuh"

namespace tessera::cuda {
namespace {

using std::int64_t;

constexpr const char* kOp = "norm_backward";

// dx for rows of any length and alignment: a block per row, which reads the row twice. Each thread
// writes only elements that it has read itself, so dx may be dy.
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
  // First pass: both sums over the row. A thread adds every blockDim.x-th element in order, then
  // block_sum folds the threads in a fixed tree.
  RowSums<A> sums;
  for (int64_t j = threadIdx.x; j < n; j += blockDim.x) {
    const A g = load(dy[j]) * (load(in.weights.w[j]) + in.weights.offset);
    sums.g += g;
    sums.gh += g * ((load(x[j]) - mean) * rstd);
  }
  // block_sum contains barriers; `centred` is the same for all threads.
  const A mean_g = in.weights.centred ? block_sum(sums.g) / static_cast<A>(n) : A(0);
  const A mean_gh = block_sum(sums.gh) / static_cast<A>(n);
  // Second pass: g and h are computed again from dy and x, which are mostly still in L1 or L2.
  for (int64_t j = threadIdx.x; j < n; j += blockDim.x) {
    const A g = load(dy[j]) * (load(in.weights.w[j]) + in.weights.offset);
    const A h = (load(x[j]) - mean) * rstd;
    contribute<T>(dx[j], rstd * (g - mean_g - h * mean_gh), in.accumulate);
  }
}

// One row of threads per row of data: `threads` wide, and as many of them as make 256 threads.
// Several need shared memory [2, C] to add up their partial dw and db at the end.
template <class T, int kHeld>
void one_pass(Stream& stream, const Gradient<T>& in, int64_t threads) {
  // Several rows at once if a row takes less than 256 threads.
  const int64_t at_once = std::max<int64_t>(1, 256 / threads);
  const std::size_t shared =
      at_once == 1 ? 0 : static_cast<std::size_t>(2 * in.weights.n) * sizeof(Accumulator<T>);
  launch(stream, kOp,
         {in.pieces.count, dim3(static_cast<unsigned>(threads), static_cast<unsigned>(at_once)),
          shared},
         norm_backward_kernel<T, kHeld>, in);
}

// dx and the partial sums. The width of a team follows from the number of 16-byte chunks, so that
// each thread holds 1, 2 or 3 chunks of dy and x in registers.
template <class T>
void input_gradient(Stream& stream, const Gradient<T>& in) {
  constexpr int kWidth = kPackWidth<T>;
  const int64_t n = in.weights.n;
  const int64_t chunks = n / kWidth;
  const bool packed = in.weights.packs() && in.dx.packs() && in.dy.packs() && in.x.packs() &&
                      can_pack<kWidth>(in.partials);
  // Up to 32 chunks: a part of a warp per row and one chunk per thread.
  if (packed && chunks <= kWarp)
    return one_pass<T, 1>(stream, in, chunks <= 8 ? 8 : chunks <= 16 ? 16 : kWarp);
  // 65 to 96 chunks: a single warp with three chunks avoids the block-wide sum of two warps.
  if (packed && chunks > 2 * kWarp && chunks <= 3 * kWarp) return one_pass<T, 3>(stream, in, kWarp);
  // 33 to 64 and 97 to 1024 chunks: two per thread, up to 512 threads. In bf16 these are rows of up
  // to 8192 channels.
  if (packed && chunks <= 2 * kMostThreads<2>)
    return one_pass<T, 2>(stream, in, (chunks + 2 * kWarp - 1) / (2 * kWarp) * kWarp);
  // The fallback: the sums first, since dx may overwrite dy.
  sum_pieces(stream, kOp, WeightSums<T>{in.partials, in.dy, in.x, in.stats, n, in.rows, in.pieces});
  const int64_t threads = std::clamp<int64_t>((n + kWarp - 1) / kWarp * kWarp, kWarp, 256);
  launch(stream, kOp, {in.rows.count, dim3(static_cast<unsigned>(threads))},
         norm_input_gradient_kernel<T>, in);
}

}  // namespace

// [pieces, 2, C] partial sums of dw and db.
std::size_t CudaKernels::norm_workspace_bytes(int64_t rows, int64_t channels, DType dtype) const {
  return static_cast<std::size_t>(Pieces(rows, channels).count * 2 * channels) *
         element_size(accumulator_type(dtype));
}

void CudaKernels::do_norm_backward(Stream& stream, View dx, View dw, View db, ConstView dy,
                                   ConstView x, ConstView stats, ConstView w, const NormSpec& spec,
                                   bool accumulate_dx, bool accumulate_dw, Workspace workspace) {
  dispatch_float(x.dtype(), kOp, [&]<class T>(TypeTag<T>) {
    using A = Accumulator<T>;
    // w has one entry per channel; the rows are all other dimensions together.
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
    finish_weight_gradients(stream, kOp, dw, db, in.partials, in.pieces.count, accumulate_dw);
  });
}

}  // namespace tessera::cuda
