// Norms of rows whose channels are sharded over ranks (tensor parallelism): a block of threads per
// row of local channels. Between the kernels the caller exchanges two numbers per row and rank.
//
//   part_stats     (mean, M2) of the local channels, M2 = sum (x - mean)^2
//   part_forward   combines the parts of all ranks and normalises
//   part_sums      local sums of g and g h, and the local weight gradients
//   part_backward  dx from the sums over all ranks
//
// Parts of equal size n are combined by the formula of Chan et al. (1979):
//
//   mean = avg(mean_p),  M2 = sum_p (M2_p + n (mean_p - mean)^2)
//
// which does not cancel, unlike E[x^2] - E[x]^2. x, y, dy, dx [rows, n] are contiguous; stats and
// moments are in the accumulator type.
#include "tessera/kernels/cuda/cuda_kernels.h"
#include "tessera/kernels/cuda/norm_weight_sums.cuh"

namespace tessera::cuda {
namespace {

using std::int64_t;

// Calls f(first element) for this thread's 16-byte chunks of a row: thread i takes chunks i, i +
// threads, ...
template <class T, class F>
__device__ void each_chunk_of(int64_t n, F&& f) {
  constexpr int64_t kWidth = kPackWidth<T>;
  for (int64_t at = threadIdx.x * kWidth; at < n; at += blockDim.x * kWidth) f(at);
}

// The sum of f(element) over a row, in every thread. The tail of a short last chunk is not counted.
template <class T, bool kPacked, class F>
__device__ Accumulator<T> sum_of_row(const T* row, int64_t n, F&& f) {
  constexpr int kWidth = kPackWidth<T>;
  Accumulator<T> sum = 0;
  each_chunk_of<T>(n, [&](int64_t at) {
    const auto x = widened(load_chunk<kPacked, kWidth>(row, at, n));
#pragma unroll
    for (int k = 0; k < kWidth; ++k)
      if (kPacked || at + k < n) sum += f(x.at[k]);
  });
  return block_sum(sum);
}

// part [rows, 2] = (mean, M2) of the local channels; for RMS norm mean = 0 and M2 = sum x^2.
template <class T, bool kPacked>
__global__ void __launch_bounds__(256)
    part_stats_kernel(Accumulator<T>* part, NormRows<const T> x, int64_t n, bool centred) {
  using A = Accumulator<T>;
  const int64_t row = blockIdx.x;
  const T* of_row = x[{row, 0}];
  // Two passes: the mean first, then squares about it. The second reads the row from cache.
  const A sum = centred ? sum_of_row<T, kPacked>(of_row, n, [](A v) { return v; }) : A(0);
  // Every rank has n > 0 channels.
  const A mean = sum / static_cast<A>(n);
  const A squares = sum_of_row<T, kPacked>(of_row, n, [=](A v) { return (v - mean) * (v - mean); });
  // block_sum leaves the sums in every thread; one writes.
  if (threadIdx.x > 0) return;
  part[2 * row] = mean;
  part[2 * row + 1] = squares;
}

// The moments of all ranks for a row, all-gathered by the caller.
template <class A>
struct Parts {
  const A* moments;  // [count, rows, 2]
  int64_t count, rows;
  // Parts are [rank, row, (mean, M2)], as the all-gather concatenates them.
  __device__ A mean(int64_t part, int64_t row) const { return moments[2 * (part * rows + row)]; }
  __device__ A squares(int64_t part, int64_t row) const {
    return moments[2 * (part * rows + row) + 1];
  }
};

// Normalises the local channels of a row with the statistics of the whole row. A thread reads a
// chunk before it writes it, and no other thread touches that chunk.
template <class T, bool kPacked>
__global__ void __launch_bounds__(256)
    part_forward_kernel(NormRows<T> y, Accumulator<T>* stats, NormRows<const T> x,
                        Parts<Accumulator<T>> parts, NormWeights<T> weights) {
  using A = Accumulator<T>;
  constexpr int kWidth = kPackWidth<T>;
  const int64_t row = blockIdx.x;
  const int64_t n = weights.n;
  // Every thread combines the parts itself: a few additions from cache cost less than a barrier.
  // The order of ranks is fixed, so that all ranks get the same bits.
  A mean = 0;
  for (int64_t p = 0; p < parts.count; ++p) mean += parts.mean(p, row);
  mean /= static_cast<A>(parts.count);
  A squares = 0;
  for (int64_t p = 0; p < parts.count; ++p) {
    // Spread of the means of the parts; 0 for RMS norm, where all means are 0.
    const A apart = parts.mean(p, row) - mean;
    squares += parts.squares(p, row) + static_cast<A>(n) * apart * apart;
  }
  const A rstd = A(1) / sqrt(squares / static_cast<A>(n * parts.count) + weights.epsilon);
  each_chunk_of<T>(n, [&](int64_t at) {
    const auto v = widened(load_chunk<kPacked, kWidth>(x[{row, 0}], at, n));
    const auto w = widened(load_chunk<kPacked, kWidth>(weights.w, at, n));
    Pack<T, kWidth> bias{};
    if (weights.b) bias = load_chunk<kPacked, kWidth>(weights.b, at, n);
    const auto b = widened(bias);
    Pack<A, kWidth> value;
#pragma unroll
    for (int k = 0; k < kWidth; ++k)
      value.at[k] = fma((v.at[k] - mean) * rstd, w.at[k] + weights.offset, b.at[k]);
    store_chunk<kPacked>(y[{row, 0}], at, n, rounded<T>(value));
  });
  // The statistics of the whole row, the same on all ranks; the backward pass reads them.
  if (threadIdx.x > 0) return;
  stats[2 * row] = mean;
  stats[2 * row + 1] = rstd;
}

// What both kernels of the gradient read. Symbols as in norm_backward.cu.
template <class T>
struct PartGradient {
  NormRows<const T> dy;
  NormRows<const T> x;
  const Accumulator<T>* stats;
  const T* w;
  Accumulator<T> offset;  // of the weights
  int64_t n;
  PartGradient(const ConstView& dy_, const ConstView& x_, const ConstView& stats_,
               const NormWeights<T>& weights)
      : dy(dy_),
        x(x_),
        stats(stats_.data<Accumulator<T>>()),
        w(weights.w),
        offset(weights.offset),
        n(weights.n) {}
  /// Whether every row of dy, x and w can be read in packs.
  bool packs() const {
    constexpr int kWidth = kPackWidth<T>;
    return n % kWidth == 0 && dy.packs() && x.packs() && can_pack<kWidth>(w);
  }
};

// Calls f(first element, g, h) for this thread's chunks of a row: g = dy (w + offset), h = (x -
// mean) rstd.
template <class T, bool kPacked, class F>
__device__ void each_gradient(const PartGradient<T>& in, int64_t row, F&& f) {
  using A = Accumulator<T>;
  constexpr int kWidth = kPackWidth<T>;
  // Statistics over all ranks, from the forward pass.
  const A mean = in.stats[2 * row];
  const A rstd = in.stats[2 * row + 1];
  each_chunk_of<T>(in.n, [&](int64_t at) {
    auto g = widened(load_chunk<kPacked, kWidth>(in.dy[{row, 0}], at, in.n));
    // Tails of dy are zeros, so g is 0 there; results behind the end of the row are not stored.
    auto h = widened(load_chunk<kPacked, kWidth>(in.x[{row, 0}], at, in.n));
    const auto w = widened(load_chunk<kPacked, kWidth>(in.w, at, in.n));
#pragma unroll
    for (int k = 0; k < kWidth; ++k) {
      g.at[k] *= w.at[k] + in.offset;
      h.at[k] = (h.at[k] - mean) * rstd;
    }
    f(at, g, h);
  });
}

// sums [rows, 2] = local sums of g and g h, to be all-reduced. Behind the end of a row dy is loaded
// as 0, so g is 0 and adds nothing.
template <class T, bool kPacked>
__global__ void __launch_bounds__(256) part_sums_kernel(Accumulator<T>* sums, PartGradient<T> in) {
  using A = Accumulator<T>;
  constexpr int kWidth = kPackWidth<T>;
  const int64_t row = blockIdx.x;
  A sum_g = 0;
  A sum_gh = 0;
  each_gradient<T, kPacked>(in, row, [&](int64_t, const auto& g, const auto& h) {
#pragma unroll
    for (int k = 0; k < kWidth; ++k) {
      sum_g += g.at[k];
      sum_gh += g.at[k] * h.at[k];
    }
  });
  // Two reductions with two barriers each; both are needed by the all-reduce that follows.
  sum_g = block_sum(sum_g);
  sum_gh = block_sum(sum_gh);
  if (threadIdx.x > 0) return;
  sums[2 * row] = sum_g;
  sums[2 * row + 1] = sum_gh;
}

// dx of the local channels. `sums` [rows, 2] are those of all ranks, after the all-reduce, and
// `channels` is the number of channels over all ranks, so the means are those of whole rows. As in
// norm_backward.cu, dx may be dy.
template <class T, bool kPacked>
__global__ void __launch_bounds__(256)
    part_backward_kernel(NormRows<T> dx, PartGradient<T> in, const Accumulator<T>* sums,
                         Accumulator<T> channels, bool centred, bool accumulate) {
  using A = Accumulator<T>;
  constexpr int kWidth = kPackWidth<T>;
  const int64_t row = blockIdx.x;
  const A mean_g = centred ? sums[2 * row] / channels : A(0);
  const A mean_gh = sums[2 * row + 1] / channels;
  const A rstd = in.stats[2 * row + 1];
  T* to = dx[{row, 0}];
  each_gradient<T, kPacked>(in, row, [&](int64_t at, const auto& g, const auto& h) {
    // dx is read only if it accumulates.
    Pack<T, kWidth> old{};
    if (accumulate) old = load_chunk<kPacked, kWidth>(to, at, in.n);
    auto value = widened(old);
    // dx = rstd (g - mean(g) - h mean(g h)), added in the accumulator type and rounded once.
#pragma unroll
    for (int k = 0; k < kWidth; ++k) value.at[k] += rstd * (g.at[k] - mean_g - h.at[k] * mean_gh);
    store_chunk<kPacked>(to, at, in.n, rounded<T>(value));
  });
}

// A block per row, with one thread per chunk, at most 256. Sharded rows are short: 8192 channels in
// bf16 over 8 ranks are 128 chunks.
template <class T>
Grid blocks_for(int64_t rows, int64_t n) {
  const int64_t chunks = (n + kPackWidth<T> - 1) / kPackWidth<T>;
  const int64_t threads = std::clamp<int64_t>((chunks + kWarp - 1) / kWarp * kWarp, kWarp, 256);
  return {rows, dim3(static_cast<unsigned>(threads))};
}

}  // namespace

void CudaKernels::do_norm_part_stats(Stream& stream, View part, ConstView x, const NormSpec& spec) {
  constexpr const char* op = "norm_part_stats";
  dispatch_float(x.dtype(), op, [&]<class T>(TypeTag<T>) {
    // Local channels of this rank.
    const int64_t n = x.dim(1);
    // All rows are aligned if the first is and their distance is a multiple of the pack width.
    const NormRows<const T> rows(x);
    const bool packed = n % kPackWidth<T> == 0 && rows.packs();
    launch(stream, op, blocks_for<T>(x.dim(0), n),
           packed ? part_stats_kernel<T, true> : part_stats_kernel<T, false>,
           part.data<Accumulator<T>>(), rows, n, spec.kind == NormKind::layer);
  });
}

void CudaKernels::do_norm_part_forward(Stream& stream, View y, View stats, ConstView x,
                                       ConstView parts, ConstView w, ConstView b,
                                       const NormSpec& spec) {
  constexpr const char* op = "norm_part_forward";
  dispatch_float(x.dtype(), op, [&]<class T>(TypeTag<T>) {
    using A = Accumulator<T>;
    // y, x and the weights share one column index, so all have to be aligned for packs.
    const NormWeights<T> weights(w, b, spec);
    const NormRows<const T> from(x);
    const NormRows<T> to(y);
    const bool packed = weights.packs() && from.packs() && to.packs();
    launch(stream, op, blocks_for<T>(x.dim(0), x.dim(1)),
           packed ? part_forward_kernel<T, true> : part_forward_kernel<T, false>, to,
           stats.data<A>(), from, Parts<A>{parts.data<A>(), parts.dim(0), x.dim(0)}, weights);
  });
}

void CudaKernels::do_norm_part_sums(Stream& stream, View sums, View dw, View db, ConstView dy,
                                    ConstView x, ConstView stats, ConstView w, const NormSpec& spec,
                                    bool accumulate_dw, Workspace workspace) {
  constexpr const char* op = "norm_part_sums";
  dispatch_float(x.dtype(), op, [&]<class T>(TypeTag<T>) {
    using A = Accumulator<T>;
    const int64_t n = x.dim(1);
    const PartGradient<T> in(dy, x, stats, {w, {}, spec});
    // Row sums first, then the weight gradients in two steps; dw and db are local to the rank.
    launch(stream, op, blocks_for<T>(x.dim(0), n),
           in.packs() ? part_sums_kernel<T, true> : part_sums_kernel<T, false>, sums.data<A>(), in);
    const RowNumbers rows(x);
    const WeightSums<T> of_weights{static_cast<A*>(workspace.raw()),
                                   NormRows<const T>(dy),
                                   NormRows<const T>(x),
                                   stats.data<A>(),
                                   n,
                                   rows,
                                   {rows.count, n}};
    sum_pieces(stream, op, of_weights);
    finish_weight_gradients(stream, op, dw, db, of_weights.partials, of_weights.pieces.count,
                            accumulate_dw);
  });
}

void CudaKernels::do_norm_part_backward(Stream& stream, View dx, ConstView dy, ConstView x,
                                        ConstView stats, ConstView sums, ConstView w,
                                        int64_t channels, const NormSpec& spec,
                                        bool accumulate_dx) {
  constexpr const char* op = "norm_part_backward";
  dispatch_float(x.dtype(), op, [&]<class T>(TypeTag<T>) {
    using A = Accumulator<T>;
    const int64_t n = x.dim(1);
    const PartGradient<T> in(dy, x, stats, {w, {}, spec});
    const NormRows<T> to(dx);
    const bool packed = in.packs() && to.packs();
    launch(stream, op, blocks_for<T>(x.dim(0), n),
           packed ? part_backward_kernel<T, true> : part_backward_kernel<T, false>, to, in,
           sums.data<A>(), static_cast<A>(channels), spec.kind == NormKind::layer, accumulate_dx);
  });
}

}  // namespace tessera::cuda
