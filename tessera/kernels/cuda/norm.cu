// Forward pass of layer norm and RMS norm, alone and fused with the residual addition and dropout
// before them. For each row x of n channels:
//
//   mean = sum x / n (0 for RMS norm),  rstd = 1 / sqrt(sum (x - mean)^2 / n + epsilon)
//   y = (x - mean) rstd (w + offset) + b
//
// x, y [N, C] or [N, G, C] with any row strides; stats acc [N G, 2] = (mean, rstd), for the
// backward pass.
//
// Mapping: a team of threads owns a row. 8 lanes, 32 lanes or a whole block, by the row's length;
// thread i of a team takes chunks i, i + team, ... of 16 bytes. A row of up to 4 chunks per thread
// is read once and kept in registers for the three passes (mean, squares, output); longer rows, and
// rows that cannot be read in packs, are read again from cache.
//
// Numerics: two-pass variance in the accumulator type. Which thread adds which elements depends on
// the row's length alone, so the plain and the fused op compute equal bits from equal rows,
// whatever their strides and alignment.
#include "tessera/kernels/cuda/cuda_kernels.h"
#include "tessera/kernels/cuda/dropout_block.cuh"
#include "tessera/kernels/cuda/norm_rows.cuh"

namespace tessera::cuda {
namespace {

using std::int64_t;

// The threads of a row: kLanes neighbouring lanes of a warp, or the whole block (kLanes = 0).
template <int kLanes>
struct Team {
  __device__ static int64_t row() {
    // A block per row, or 256 / kLanes rows per block, numbered by thread.
    if constexpr (kLanes == 0)
      return blockIdx.x;
    else
      return (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / kLanes;
  }
  __device__ static int size() { return kLanes == 0 ? static_cast<int>(blockDim.x) : kLanes; }
  __device__ static int rank() { return static_cast<int>(threadIdx.x) % size(); }
  // Every thread of the team gets the sum. All threads of the warp, or of the block, must call.
  template <class A>
  __device__ static A sum(A x) {
    if constexpr (kLanes == 0)
      return block_sum(x);
    else
      return lanes_sum<kLanes>(x);
  }
};

// A source of rows: read() starts the loads of a chunk, write() finishes the chunk and returns it,
// again() re-reads it. Here the row is in memory already and write() has nothing to do.
template <class T>
struct GivenRow {
  static constexpr int kWidth = kPackWidth<T>;
  using Parts = Pack<T, kWidth>;
  const T* x;
  template <bool kPacked>
  __device__ Parts read(int64_t at, int64_t n) const {
    return load_chunk<kPacked, kWidth>(x, at, n);
  }
  template <bool kPacked>
  __device__ Parts write(int64_t, int64_t, const Parts& parts) const {
    return parts;
  }
  template <bool kPacked>
  __device__ Parts again(int64_t at, int64_t n) const {
    return read<kPacked>(at, n);
  }
};

// The plain norm: rows of x as they are.
template <class T>
struct GivenRows {
  NormRows<const T> x;
  __device__ GivenRow<T> row(const RowNumbers::Place& at, int64_t) const { return {x[at]}; }
};

// x + dropout(branch), stored as r. Rows have numbers, which select the sample and position of the
// dropout mask.
template <class T>
struct AddedRows {
  NormRows<T> r;
  NormRows<const T> x, branch;
  HiddenDropout<Accumulator<T>> dropout;
  __device__ AddedRow<T> row(const RowNumbers::Place& at, int64_t number) const {
    return {r[at], x[at], branch[at], number, dropout};
  }
};

// One thread's chunks of a row of n elements: every team-size-th. With kHeld > 0 up to kHeld of
// them are kept in registers; with kHeld = 0 they are written in the constructor and re-read by
// for_each.
template <class T, int kLanes, int kHeld, bool kPacked, class Row>
class Share {
 public:
  static constexpr int kWidth = kPackWidth<T>;

  __device__ Share(const Row& row, int64_t n) : row_(row), n_(n) {
    // Nothing is kept: the row is finished and stored now, and read back from cache for each pass.
    if constexpr (kHeld == 0) {
      for (int64_t at = first(); at < n_; at += step())
        row_.template write<kPacked>(at, n_, row_.template read<kPacked>(at, n_));
    } else {
      // All loads are issued before the first chunk is used, to hide memory latency.
      typename Row::Parts parts[kHeld];
#pragma unroll
      for (int k = 0; k < kHeld; ++k)
        if (first() + k * step() < n_)
          parts[k] = row_.template read<kPacked>(first() + k * step(), n_);
#pragma unroll
      for (int k = 0; k < kHeld; ++k)
        if (first() + k * step() < n_)
          held_[k] = row_.template write<kPacked>(first() + k * step(), n_, parts[k]);
    }
  }

  // Calls f(first element, elements that count, chunk widened to the accumulator).
  template <class F>
  __device__ void for_each(F&& f) const {
    if constexpr (kHeld == 0) {
      for (int64_t at = first(); at < n_; at += step())
        // The last chunk of a row that is not packed may be short; its tail is zeros, which must
        // not be counted in the variance.
        f(at, kPacked ? kWidth : static_cast<int>(min(n_ - at, int64_t{kWidth})),
          widened(row_.template again<kPacked>(at, n_)));
    } else {
#pragma unroll
      for (int k = 0; k < kHeld; ++k)
        if (first() + k * step() < n_) f(first() + k * step(), kWidth, widened(held_[k]));
    }
  }

 private:
  __device__ static int64_t first() { return Team<kLanes>::rank() * kWidth; }
  __device__ static int64_t step() { return Team<kLanes>::size() * kWidth; }

  const Row& row_;
  int64_t n_;
  // In the type of memory, so that four chunks take 16 registers. kHeld is a constant and all loops
  // over it are unrolled, so the array never needs an address.
  Pack<T, kWidth> held_[kHeld > 0 ? kHeld : 1];
};

// The sum over a row, where f(sum, element) adds an element. A thread adds its elements in order,
// then the team its partial sums in a fixed tree.
template <class A, class OfRow, class S, class F>
__device__ A sum_over(const S& share, F&& f) {
  A sum = 0;
  share.for_each([&](int64_t, int count, const auto& x) {
#pragma unroll
    for (int k = 0; k < S::kWidth; ++k)
      if (k < count) sum = f(sum, x.at[k]);
  });
  return OfRow::sum(sum);
}

// Fused multiply-adds are written out as fma: otherwise the compiler could contract the products
// differently in different template variants, and their bits would differ.
template <class T, int kLanes, int kHeld, bool kPacked, class Source>
__global__ void __launch_bounds__(kLanes == 0 ? 1024 : 256)
    norm_kernel(NormRows<T> y, Accumulator<T>* stats, Source source, NormWeights<T> weights,
                RowNumbers rows) {
  using A = Accumulator<T>;
  using OfRow = Team<kLanes>;
  constexpr int kWidth = kPackWidth<T>;
  const int64_t number = OfRow::row();
  // Teams behind the last row run along with n = 0, because sums over lanes need all threads of a
  // warp.
  const bool here = number < rows.count;
  // A place that exists, so that addresses stay valid.
  const RowNumbers::Place place = rows.place(here ? number : 0);
  const auto row = source.row(place, here ? number : 0);
  const int64_t n = here ? weights.n : 0;  // threads without a row take part in the sums
  const Share<T, kLanes, kHeld, kPacked, std::remove_const_t<decltype(row)>> share(row, n);
  const A count = static_cast<A>(weights.n);
  // RMS norm does not subtract the mean; this branch is the same for all threads.
  const A mean = weights.centred
                     ? sum_over<A, OfRow>(share, [](A sum, A x) { return sum + x; }) / count
                     : A(0);
  // Second pass: squares about the mean, which do not cancel as E[x^2] - E[x]^2 would.
  const A squares = sum_over<A, OfRow>(share, [=](A sum, A x) {
    const A centred = x - mean;
    return fma(centred, centred, sum);
  });
  const A rstd = A(1) / sqrt(squares / count + weights.epsilon);
  T* out = y[place];
  // Weights are read once per row; they stay in L1/L2, since all rows use the same ones.
  share.for_each([&](int64_t at, int, const Pack<A, kWidth>& x) {
    const auto w = widened(load_chunk<kPacked, kWidth>(weights.w, at, n));
    Pack<T, kWidth> bias{};
    // A bias is optional; zeros stand in for it.
    if (weights.b) bias = load_chunk<kPacked, kWidth>(weights.b, at, n);
    const auto b = widened(bias);
    Pack<A, kWidth> value;
#pragma unroll
    for (int k = 0; k < kWidth; ++k)
      value.at[k] = fma((x.at[k] - mean) * rstd, w.at[k] + weights.offset, b.at[k]);
    store_chunk<kPacked>(out, at, n, rounded<T>(value));
  });
  // One thread per row writes the statistics.
  if (here && OfRow::rank() == 0) {
    stats[2 * number] = mean;
    stats[2 * number + 1] = rstd;
  }
}

constexpr int kThreads = 256;  // of a block whose teams are lanes
constexpr int kMostHeld = 4;   // chunks that a thread keeps
constexpr int kFewLanes = 8;

// The arguments of one launch, with the choice of the kernel variant in run().
template <class T, class Source>
struct NormCall {
  Stream& stream;
  const char* op;
  NormRows<T> y;
  Accumulator<T>* stats;
  Source source;
  NormWeights<T> weights;
  RowNumbers rows;

  // threads / kLanes rows per block, or one row per block for kLanes = 0.
  template <int kLanes, int kHeld, bool kPacked>
  void with(int64_t threads) const {
    const int64_t per_block = threads / (kLanes == 0 ? threads : kLanes);
    launch(stream, op,
           {(rows.count + per_block - 1) / per_block, dim3(static_cast<unsigned>(threads))},
           norm_kernel<T, kLanes, kHeld, kPacked, Source>, y, stats, source, weights, rows);
  }

  // Chooses the team by the length of a row, and whether to hold it in registers by what fits and
  // by `packed`. The team does not depend on `packed`: both variants add in the same order. In bf16
  // a chunk has 8 elements: up to 256 channels take 8 lanes, up to 1024 a warp, up to 32768 a block
  // with the row in registers.
  void run(bool packed) const {
    const int64_t chunks = (weights.n + kPackWidth<T> - 1) / kPackWidth<T>;
    if (chunks <= kMostHeld * kFewLanes) {
      if (!packed) return with<kFewLanes, 0, false>(kThreads);
      if (chunks <= kFewLanes) return with<kFewLanes, 1, true>(kThreads);
      return with<kFewLanes, kMostHeld, true>(kThreads);
    }
    if (chunks <= kMostHeld * kWarp)
      return packed ? with<kWarp, kMostHeld, true>(kThreads) : with<kWarp, 0, false>(kThreads);
    // Just enough warps for 4 chunks per thread, at most 1024 threads.
    const int64_t warps = (chunks + kMostHeld * kWarp - 1) / (kMostHeld * kWarp);
    const int64_t threads = std::min<int64_t>(warps * kWarp, 1024);
    if (!packed) return with<0, 0, false>(threads);
    if (chunks <= kMostHeld * threads) return with<0, kMostHeld, true>(threads);
    return with<0, 0, true>(threads);
  }
};

}  // namespace

void CudaKernels::do_norm_forward(Stream& stream, View y, View stats, ConstView x, ConstView w,
                                  ConstView b, const NormSpec& spec) {
  dispatch_float(x.dtype(), "norm_forward", [&]<class T>(TypeTag<T>) {
    const NormCall<T, GivenRows<T>> call{stream,
                                         "norm_forward",
                                         NormRows<T>(y),
                                         stats.data<Accumulator<T>>(),
                                         {NormRows<const T>(x)},
                                         {w, b, spec},
                                         RowNumbers(x)};
    // Packs only if every tensor allows them, since all are indexed by the same chunks.
    call.run(call.y.packs() && call.source.x.packs() && call.weights.packs());
  });
}

void CudaKernels::do_add_norm_forward(Stream& stream, View y, View r, View stats, ConstView x,
                                      ConstView branch, ConstView w, ConstView b,
                                      const NormSpec& spec, const DropoutSpec& dropout) {
  dispatch_float(x.dtype(), "add_norm_forward", [&]<class T>(TypeTag<T>) {
    using A = Accumulator<T>;
    const AddedRows<T> source{NormRows<T>(r), NormRows<const T>(x), NormRows<const T>(branch),
                              HiddenDropout<A>(dropout)};
    const NormCall<T, AddedRows<T>> call{
        stream, "add_norm_forward", NormRows<T>(y), stats.data<A>(),
        source, {w, b, spec},       RowNumbers(x)};
    call.run(call.y.packs() && source.r.packs() && source.x.packs() && source.branch.packs() &&
             call.weights.packs());
  });
}

}  // namespace tessera::cuda
