// Norm backward in one pass over dy and x: dx and the partial sums of dw and db (formulas in
// norm_backward.cu). A block owns a piece of the rows; threadIdx.x runs along the row, threadIdx.y
// over rows that are processed at the same time. Each thread owns kHeld chunks of 16 bytes of
// columns: it keeps the current row's dy and x and the f32 sums of its columns in registers over
// all rows of the piece.
#pragma once

#include "tessera/kernels/cuda/norm_rows.cuh"

namespace tessera::cuda {

// The ranges of rows, one per block. As many as an H200 (132 SMs) runs blocks at once, 2 or 3 per
// SM, unless they would be too short to pay for writing and adding their partial sums. The number
// of pieces depends on shapes alone.
struct Pieces {
  Pieces(std::int64_t rows_, std::int64_t channels)
      : rows(rows_),
        count(std::min((rows_ + kShortest - 1) / kShortest,
                       channels <= kNarrow ? kMostNarrow : kMost)) {}
  static constexpr std::int64_t kShortest = 8;
  static constexpr std::int64_t kNarrow = 256;
  static constexpr std::int64_t kMost = 264;
  static constexpr std::int64_t kMostNarrow = 396;
  // Multiplying before dividing spreads the remainder: pieces differ by at most one row. rows *
  // piece stays far below 2^63.
  TESSERA_HOST_DEVICE std::int64_t begin(std::int64_t piece) const { return rows * piece / count; }
  std::int64_t rows, count;
};

// Arguments of the backward pass, by value in kernel parameters: pointers and strides only.
template <class T>
struct Gradient {
  NormRows<T> dx;
  Accumulator<T>* partials;  /// [pieces, 2, C]: sums of dy h and of dy
  NormRows<const T> dy, x;
  const Accumulator<T>* stats;
  NormWeights<T> weights;
  RowNumbers rows;
  Pieces pieces;
  bool accumulate;  ///< to dx
};

// Sums over a row, for mean(g) and mean(g h). dx may be dy: a thread reads an element before it
// writes it, and no other thread reads it.
template <class A>
struct RowSums {
  A g = 0;
  A gh = 0;
};

// Sums over the threads (*, threadIdx.y), which share a row: blockDim.x is a power of two up to 32
// (lanes of one warp), or a multiple of 32. Across warps the sums go through shared memory, with
// one barrier per row: `turn` alternates between two buffers, so that a warp that is already at the
// next row does not overwrite values that slower ones still read. kFewLanes: blockDim.x may be less
// than 32.
template <class A, bool kFewLanes>
__device__ RowSums<A> sum_over_row(RowSums<A> mine, int turn) {
  const int lanes = kFewLanes ? static_cast<int>(blockDim.x) : kWarp;
  // A butterfly: all lanes end up with the same bits. Groups of less than 32 lanes hold different
  // rows and do not mix, since `step` stays below the size of a group.
#pragma unroll
  for (int step = lanes / 2; step > 0; step /= 2) {
    mine.g += __shfl_xor_sync(kAllLanes, mine.g, step);
    mine.gh += __shfl_xor_sync(kAllLanes, mine.gh, step);
  }
  if (blockDim.x <= kWarp) return mine;
  __shared__ A of_warp[2][kWarp][2];
  // Several rows of threads share the buffer; row threadIdx.y has `warps` entries from `first` on.
  const unsigned warps = blockDim.x / kWarp;
  const unsigned first = threadIdx.y * warps;
  if (threadIdx.x % kWarp == 0) {
    A(&slot)[2] = of_warp[turn][first + threadIdx.x / kWarp];
    slot[0] = mine.g;
    slot[1] = mine.gh;
  }
  // All warps of the row have stored. The barrier covers the whole block, so every row of threads
  // must reach it equally often.
  __syncthreads();
  // Warps are added in order, by every thread, so all have the same bits.
  mine = {};
  for (unsigned warp = 0; warp < warps; ++warp) {
    mine.g += of_warp[turn][first + warp][0];
    mine.gh += of_warp[turn][first + warp][1];
  }
  return mine;
}

// 16 bytes in four registers. The compiler would spread a pack that lives long over one register
// per element, twice as many for 16-bit types.
using Words = Pack<std::uint32_t, 4>;

template <class T>
__device__ Words load_words(const T* x) {
  return load_pack<4>(reinterpret_cast<const std::uint32_t*>(x));
}
template <class T>
__device__ Pack<Accumulator<T>, kPackWidth<T>> widened_words(const Words& words) {
  Pack<T, kPackWidth<T>> pack;
  // Compiles to register moves; reinterpreting the address of a local would force it into memory.
  memcpy(&pack, &words, sizeof(words));
  return widened(pack);
}

// The first element of a thread's k-th chunk; neighbouring threads have neighbouring chunks.
template <class T>
__device__ std::int64_t chunk_at(int k) {
  return (threadIdx.x + k * blockDim.x) * kPackWidth<T>;
}

// What a thread holds of one row, in the type of memory (not widened) to save registers.
template <class T, int kHeld>
struct HeldRow {
  using A = Accumulator<T>;
  Words dy[kHeld], x[kHeld];
  A mean, rstd;
  RowNumbers::Place place;

  /// Starts the loads of a row; zeros if there is no such row, which add nothing to any sum.
  __device__ void read(const Gradient<T>& in, std::int64_t row, bool here) {
    // Rows that do not exist read row 0 as their place, an address that is valid, but load nothing.
    place = in.rows.place(here ? row : 0);
    const T* dy_row = in.dy[place];
    const T* x_row = in.x[place];
    // Chunks behind the end of the row are zeros, too; they add nothing to the sums and are not
    // stored.
#pragma unroll
    for (int k = 0; k < kHeld; ++k) {
      const std::int64_t at = chunk_at<T>(k);
      const bool has = here && at < in.weights.n;
      dy[k] = has ? load_words(dy_row + at) : Words{};
      x[k] = has ? load_words(x_row + at) : Words{};
    }
    mean = here ? in.stats[2 * row] : A(0);
    rstd = here ? in.stats[2 * row + 1] : A(0);
  }
};

// One thread's part of a piece: the sums of its columns of dw and db.
template <class T, int kHeld>
class Worker {
 public:
  static constexpr int kWidth = kPackWidth<T>;
  using A = Accumulator<T>;

  __device__ explicit Worker(const Gradient<T>& in) : in_(in) {}

  /// Adds the row to dw and db, and returns the thread's part of the sums over the row.
  __device__ RowSums<A> take(const HeldRow<T, kHeld>& row) {
    RowSums<A> sums;
#pragma unroll
    for (int k = 0; k < kHeld; ++k) {
      // Widened here and dropped at the end of the iteration; only the packed words live across the
      // barrier.
      const auto dy = widened_words<T>(row.dy[k]);
      const auto x = widened_words<T>(row.x[k]);
      const auto w = widened_words<T>(weight(k));
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        // h is the normalised input, g the gradient with respect to it.
        const A h = (x.at[i] - row.mean) * row.rstd;
        const A g = dy.at[i] * (w.at[i] + in_.weights.offset);
        sums.g += g;
        sums.gh += g * h;
        dw_[k].at[i] += dy.at[i] * h;
        db_[k].at[i] += dy.at[i];
      }
    }
    return sums;
  }

  /// The old dx where it accumulates, zeros elsewhere. Read early, so that the latency overlaps
  /// with the sums.
  __device__ void read_dx(Words (&old)[kHeld], const HeldRow<T, kHeld>& row, bool here) const {
    const T* dx = in_.dx[row.place];
#pragma unroll
    for (int k = 0; k < kHeld; ++k)
      old[k] = in_.accumulate && here && has(k) ? load_words(dx + chunk_at<T>(k)) : Words{};
  }

  // Recomputes g and h from the held dy and x: cheaper than keeping them widened.
  __device__ void write_dx(const HeldRow<T, kHeld>& row, const RowSums<A>& sums,
                           const Words (&old)[kHeld]) const {
    const A mean_g = in_.weights.centred ? sums.g / static_cast<A>(in_.weights.n) : A(0);
    const A mean_gh = sums.gh / static_cast<A>(in_.weights.n);
    T* dx = in_.dx[row.place];
#pragma unroll
    for (int k = 0; k < kHeld; ++k) {
      if (!has(k)) continue;
      const auto dy = widened_words<T>(row.dy[k]);
      const auto x = widened_words<T>(row.x[k]);
      const auto w = widened_words<T>(weight(k));
      // Where dx does not accumulate, `old` is zeros: one code path adds in the accumulator type
      // and rounds once.
      auto value = widened_words<T>(old[k]);
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        const A h = (x.at[i] - row.mean) * row.rstd;
        const A g = dy.at[i] * (w.at[i] + in_.weights.offset);
        value.at[i] += row.rstd * (g - mean_g - h * mean_gh);
      }
      store_pack(dx + chunk_at<T>(k), rounded<T>(value));
    }
  }

  /// Adds up dw and db of the block: row of threads 0 stores to `shared` [2, C], each next one adds
  /// its own in turn, and the last writes the partial sums. A fixed order instead of shared-memory
  /// atomics.
  __device__ void finish(A* shared, A* partial) {
    // One barrier per turn, reached by all threads; each turn belongs to one row of threads.
    for (unsigned turn = 0; turn < blockDim.y; ++turn) {
      if (turn > 0) __syncthreads();
      if (threadIdx.y != turn) continue;
#pragma unroll
      for (int k = 0; k < kHeld; ++k) {
        if (!has(k)) continue;
        const std::int64_t at = chunk_at<T>(k);
        add_up(dw_[k], shared + at, partial + at, turn);
        add_up(db_[k], shared + in_.weights.n + at, partial + in_.weights.n + at, turn);
      }
    }
  }

 private:
  __device__ bool has(int k) const { return chunk_at<T>(k) < in_.weights.n; }
  // Re-read for each row: it stays in L1, while registers are scarce.
  __device__ Words weight(int k) const {
    return has(k) ? load_words(in_.weights.w + chunk_at<T>(k)) : Words{};
  }

  // mine, shared and partial point to one chunk of columns. The first row of threads only stores,
  // the last one only writes the result; with one row of threads it is both.
  __device__ static void add_up(Pack<A, kWidth>& mine, A* shared, A* partial, unsigned turn) {
    const bool last = turn + 1 == blockDim.y;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      // Earlier rows of threads first: the order of the sum is that of threadIdx.y.
      if (turn > 0) mine.at[i] += shared[i];
      if (!last) shared[i] = mine.at[i];
    }
    if (last) store_pack(partial, mine);
  }

  const Gradient<T>& in_;
  Pack<A, kWidth> dw_[kHeld]{};
  Pack<A, kWidth> db_[kHeld]{};
};

// Threads per block and blocks per SM (__launch_bounds__), which bound the registers per thread: 85
// for kHeld = 1 (3 x 256 threads), 128 for kHeld = 2 (512) and kHeld = 3 (2 x 256). Three chunks
// per thread leave no registers for prefetching the next row.
template <int kHeld>
constexpr int kMostThreads = kHeld == 2 ? 512 : 256;
template <int kHeld>
constexpr int kBlocksAtOnce = kHeld == 1   ? 3
                              : kHeld == 2 ? 1
                                           : 2;
template <int kHeld>
constexpr bool kReadsAhead = kHeld < 3;

// A block per piece, blockDim.y rows at a time. The next row is loaded while the sums of the
// current one are formed, if there are registers for it. All threads run the same number of
// iterations, as the barriers in sum_over_row require; threads without a row hold zeros.
template <class T, int kHeld>
__global__ void __launch_bounds__(kMostThreads<kHeld>, kBlocksAtOnce<kHeld>)
    norm_backward_kernel(Gradient<T> in) {
  using A = Accumulator<T>;
  constexpr bool kAhead = kReadsAhead<kHeld>;
  // [2, C] for finish(); empty if there is one row of threads.
  extern __shared__ __align__(16) unsigned char shared_bytes[];
  // Blocks with an empty piece do not exist: there are at most as many pieces as rows.
  const std::int64_t begin = in.pieces.begin(blockIdx.x);
  const std::int64_t end = in.pieces.begin(std::int64_t{blockIdx.x} + 1);
  Worker<T, kHeld> worker(in);
  HeldRow<T, kHeld> next;
  if (kAhead) next.read(in, begin + threadIdx.y, begin + threadIdx.y < end);
  int turn = 0;
  for (std::int64_t first = begin; first < end; first += blockDim.y) {
    const std::int64_t row = first + threadIdx.y;
    if (!kAhead) next.read(in, row, row < end);
    // A copy in registers, which lets `next` be overwritten by the loads of the following row.
    const HeldRow<T, kHeld> now = next;
    // The accumulated dx is loaded before the sums, so that the barrier hides its latency.
    Words old[kHeld];
    worker.read_dx(old, now, row < end);
    if (kAhead) next.read(in, row + blockDim.y, row + blockDim.y < end);
    // kHeld = 1 is the only variant with less than 32 threads per row.
    const RowSums<A> sums = sum_over_row<A, kHeld == 1>(worker.take(now), turn);
    if (row < end) worker.write_dx(now, sums, old);
    turn = 1 - turn;
  }
  // Each block writes its own [2, C] of the partials; the kernel that adds them up follows on the
  // stream.
  worker.finish(reinterpret_cast<A*>(shared_bytes), in.partials + blockIdx.x * 2 * in.weights.n);
}

}  // namespace tessera::cuda
