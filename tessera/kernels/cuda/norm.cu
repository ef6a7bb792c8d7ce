// Layer norm and RMS norm, alone and fused with the residual addition and dropout before them. A
// block of threads takes a row. How many threads depends on the row's length alone, so that both
// forward ops compute equal bits from equal rows.
#include <algorithm>

#include "tessera/kernels/cuda/cuda_kernels.h"
#include "tessera/kernels/cuda/dropout_block.cuh"
#include "tessera/kernels/cuda/launch.cuh"

namespace tessera::cuda {
namespace {

using std::int64_t;

// [N, C] or [N, G, C] as numbered rows.
template <class T>
struct Rows {
  T* data;
  int64_t inner, outer_stride, inner_stride;
  __device__ T* operator[](int64_t row) const {
    return data + row / inner * outer_stride + row % inner * inner_stride;
  }
};

template <class T, class V>
Rows<T> rows_of(const V& x) {
  const bool flat = x.rank() == 2;
  return {x.template data<std::remove_const_t<T>>(), flat ? 1 : x.dim(1), x.stride(0),
          flat ? 0 : x.stride(1)};
}

int64_t count_rows(const ConstView& x) { return x.numel() / std::max<int64_t>(1, x.dim(-1)); }

Grid one_block_per_row(const ConstView& x) {
  const int64_t threads = std::clamp<int64_t>((x.dim(-1) + kWarp - 1) / kWarp * kWarp, kWarp, 256);
  return {count_rows(x), dim3(static_cast<unsigned>(threads))};
}

template <class T>
struct Weights {
  const T* w;
  const T* b;  ///< null without bias
  int64_t n;
  bool centred;  ///< layer norm subtracts the mean, RMS norm does not
  Accumulator<T> epsilon;
};

template <class T>
Weights<T> weights_of(const ConstView& w, const ConstView& b, const NormSpec& spec) {
  return {w.data<T>(), b ? b.data<T>() : nullptr, w.dim(0), spec.kind == NormKind::layer,
          static_cast<Accumulator<T>>(spec.epsilon)};
}

// All threads of the block call it.
template <class T, class A = Accumulator<T>>
__device__ void norm_row(T* y, A* stats, const T* x, const Weights<T>& weights) {
  const int64_t n = weights.n;
  A mean = 0;
  if (weights.centred) {
    for (int64_t j = threadIdx.x; j < n; j += blockDim.x) mean += load(x[j]);
    mean = block_sum(mean) / static_cast<A>(n);
  }
  A squares = 0;
  for (int64_t j = threadIdx.x; j < n; j += blockDim.x) {
    const A centred = load(x[j]) - mean;
    squares += centred * centred;
  }
  const A rstd = A(1) / sqrt(block_sum(squares) / static_cast<A>(n) + weights.epsilon);
  for (int64_t j = threadIdx.x; j < n; j += blockDim.x) {
    const A scaled = (load(x[j]) - mean) * rstd * load(weights.w[j]);
    store<T>(y[j], weights.b ? scaled + load(weights.b[j]) : scaled);
  }
  if (threadIdx.x == 0) {
    stats[0] = mean;
    stats[1] = rstd;
  }
}

template <class T>
__global__ void norm_kernel(Rows<T> y, Accumulator<T>* stats, Rows<const T> x, Weights<T> weights) {
  const int64_t row = blockIdx.x;
  norm_row(y[row], stats + 2 * row, x[row], weights);
}

template <class T>
__global__ void add_norm_kernel(T* y, T* r, Accumulator<T>* stats, const T* x, const T* branch,
                                Weights<T> weights, HiddenDropout<Accumulator<T>> dropout) {
  const int64_t row = blockIdx.x;
  const int64_t at = row * weights.n;
  for (int64_t block = threadIdx.x; 4 * block < weights.n; block += blockDim.x)
    add_dropout_block(r + at, x + at, branch + at, row, block, weights.n, dropout);
  __syncthreads();  // threads read each other's part of r
  norm_row(y + at, stats + 2 * row, r + at, weights);
}

// With g = dy w and h = (x - mean) rstd: dx = rstd (g - mean(g) - h mean(g h)); RMS norm lacks the
// mean(g) term. dx may be dy: a thread reads an element before it writes it, and sums come first.
template <class T>
__global__ void norm_input_gradient_kernel(Rows<T> dx, Rows<const T> dy, Rows<const T> x,
                                           const Accumulator<T>* stats, Weights<T> weights,
                                           bool accumulate) {
  using A = Accumulator<T>;
  const int64_t row = blockIdx.x;
  const int64_t n = weights.n;
  T* out = dx[row];
  const T* upstream = dy[row];
  const T* in = x[row];
  const A mean = stats[2 * row];
  const A rstd = stats[2 * row + 1];
  A sum_g = 0;
  A sum_gh = 0;
  for (int64_t j = threadIdx.x; j < n; j += blockDim.x) {
    const A g = load(upstream[j]) * load(weights.w[j]);
    sum_g += g;
    sum_gh += g * ((load(in[j]) - mean) * rstd);
  }
  const A mean_g = weights.centred ? block_sum(sum_g) / static_cast<A>(n) : A(0);
  const A mean_gh = block_sum(sum_gh) / static_cast<A>(n);
  for (int64_t j = threadIdx.x; j < n; j += blockDim.x) {
    const A g = load(upstream[j]) * load(weights.w[j]);
    const A h = (load(in[j]) - mean) * rstd;
    contribute<T>(out[j], rstd * (g - mean_g - h * mean_gh), accumulate);
  }
}

// Weight gradients in two stages of fixed order: partial sums over pieces of the rows, then the sum
// over the pieces.
struct Pieces {
  explicit Pieces(int64_t rows)
      : length(std::max<int64_t>(64, (rows + kMost - 1) / kMost)),
        count((rows + length - 1) / length) {}
  static constexpr int64_t kMost = 256;
  int64_t length, count;
};

constexpr int kPieceLanes = 8;  // rows of threads in a block of norm_partials_kernel

// partials acc [pieces, 2, C]: sums of dy h and of dy. Blocks: pieces x groups of 32 columns.
template <class T>
__global__ void norm_partials_kernel(Accumulator<T>* partials, Rows<const T> dy, Rows<const T> x,
                                     const Accumulator<T>* stats, int64_t rows, int64_t n,
                                     int64_t piece_length, int64_t column_blocks) {
  using A = Accumulator<T>;
  __shared__ A sums[2][kPieceLanes][kWarp];
  const int64_t piece = blockIdx.x / column_blocks;
  const int64_t column = blockIdx.x % column_blocks * kWarp + threadIdx.x;
  const int64_t end = min(rows, (piece + 1) * piece_length);
  A dw = 0;
  A db = 0;
  if (column < n)
    for (int64_t row = piece * piece_length + threadIdx.y; row < end; row += kPieceLanes) {
      const A upstream = load(dy[row][column]);
      dw += upstream * ((load(x[row][column]) - stats[2 * row]) * stats[2 * row + 1]);
      db += upstream;
    }
  sums[0][threadIdx.y][threadIdx.x] = dw;
  sums[1][threadIdx.y][threadIdx.x] = db;
  __syncthreads();
  if (threadIdx.y > 0 || column >= n) return;
  for (int i = 1; i < kPieceLanes; ++i) {
    dw += sums[0][i][threadIdx.x];
    db += sums[1][i][threadIdx.x];
  }
  partials[2 * piece * n + column] = dw;
  partials[(2 * piece + 1) * n + column] = db;
}

template <class D, class A>
struct SumPartials {
  D* out;
  const A* partials;
  int64_t count, stride;
  bool accumulate;
  __device__ void operator()(int64_t j) const {
    A sum = 0;
    for (int64_t piece = 0; piece < count; ++piece) sum += partials[piece * stride + j];
    contribute<D>(out[j], static_cast<Accumulator<D>>(sum), accumulate);
  }
};

template <class T>
void weight_gradients(Stream& stream, const View& dw, const View& db, const ConstView& dy,
                      const ConstView& x, const ConstView& stats, bool accumulate,
                      const Workspace& workspace) {
  using A = Accumulator<T>;
  constexpr const char* op = "norm_backward";
  const int64_t rows = count_rows(x);
  const int64_t n = x.dim(-1);
  const Pieces pieces(rows);
  const int64_t column_blocks = (n + kWarp - 1) / kWarp;
  A* partials = static_cast<A*>(workspace.raw());
  launch(stream, op, {pieces.count * column_blocks, dim3(kWarp, kPieceLanes)},
         norm_partials_kernel<T>, partials, rows_of<const T>(dy), rows_of<const T>(x),
         stats.data<A>(), rows, n, pieces.length, column_blocks);
  dispatch_float(dw.dtype(), op, [&]<class D>(TypeTag<D>) {
    for_each(stream, op, n,
             SumPartials<D, A>{dw.data<D>(), partials, pieces.count, 2 * n, accumulate});
    if (db)
      for_each(stream, op, n,
               SumPartials<D, A>{db.data<D>(), partials + n, pieces.count, 2 * n, accumulate});
  });
}

}  // namespace

void CudaKernels::do_norm_forward(Stream& stream, View y, View stats, ConstView x, ConstView w,
                                  ConstView b, const NormSpec& spec) {
  dispatch_float(x.dtype(), "norm_forward", [&]<class T>(TypeTag<T>) {
    launch(stream, "norm_forward", one_block_per_row(x), norm_kernel<T>, rows_of<T>(y),
           stats.data<Accumulator<T>>(), rows_of<const T>(x), weights_of<T>(w, b, spec));
  });
}

void CudaKernels::do_add_norm_forward(Stream& stream, View y, View r, View stats, ConstView x,
                                      ConstView branch, ConstView w, ConstView b,
                                      const NormSpec& spec, const DropoutSpec& dropout) {
  dispatch_float(x.dtype(), "add_norm_forward", [&]<class T>(TypeTag<T>) {
    using A = Accumulator<T>;
    launch(stream, "add_norm_forward", one_block_per_row(x), add_norm_kernel<T>, y.data<T>(),
           r.data<T>(), stats.data<A>(), x.data<T>(), branch.data<T>(), weights_of<T>(w, b, spec),
           HiddenDropout<A>(dropout));
  });
}

std::size_t CudaKernels::norm_workspace_bytes(int64_t rows, int64_t channels, DType dtype) const {
  return static_cast<std::size_t>(Pieces(rows).count * 2 * channels) *
         size_of(accumulator_of(dtype));
}

void CudaKernels::do_norm_backward(Stream& stream, View dx, View dw, View db, ConstView dy,
                                   ConstView x, ConstView stats, ConstView w, const NormSpec& spec,
                                   bool accumulate_dx, bool accumulate_dw, Workspace workspace) {
  dispatch_float(x.dtype(), "norm_backward", [&]<class T>(TypeTag<T>) {
    // First, since dx may take the place of dy.
    weight_gradients<T>(stream, dw, db, dy, x, stats, accumulate_dw, workspace);
    launch(stream, "norm_backward", one_block_per_row(x), norm_input_gradient_kernel<T>,
           rows_of<T>(dx), rows_of<const T>(dy), rows_of<const T>(x), stats.data<Accumulator<T>>(),
           weights_of<T>(w, {}, spec), accumulate_dx);
  });
}

}  // namespace tessera::cuda
