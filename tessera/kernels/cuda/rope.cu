// Rotary position embedding (Su et al., 2021), in place: each pair of channels (a, b) of a head is
// rotated by an angle that depends on its position and the pair's number.
//
//   a' = a cos - b sin,  b' = b cos + a sin     (inverse: sin -> -sin, the backward pass)
//
// x [S, B, heads, D] with any strides but the last; cos and sin acc [positions, half]; positions
// i32 [S, B]. Pairs are (i, i + half) (halves: GPT-NeoX, Llama) or (2i, 2i + 1) (interleaved:
// GPT-J); channels from 2 half on are left as they are. A thread loads the cos and sin of one pack
// of pairs once and applies them to up to four heads.
#include "tessera/kernels/cuda/chunks.cuh"
#include "tessera/kernels/cuda/cuda_kernels.h"

namespace tessera::cuda {
namespace {

using std::int64_t;

// Heads per thread that are rotated by the same angles: the tables are read a quarter as often, and
// four pairs of loads are in flight.
constexpr int kHeadsAtOnce = 4;

// The arguments. rows = S * batch; `half` is the number of pairs; direction is 1 or -1.
template <class T>
struct Rotation {
  using A = Accumulator<T>;
  T* x;
  int64_t s_stride, b_stride, head_stride;
  int64_t rows, batch, heads, half;
  const A* cos;
  const A* sin;
  const std::int32_t* positions;
  A direction;
};

// kWidth pairs of one head, from pair number `at` on, as two packs: all a and all b where halves
// are paired, or kWidth / 2 pairs each where they are interleaved.
template <class T, bool kPacked, bool kInterleaved>
struct Pairs {
  static constexpr int kWidth = kPackWidth<T>;
  static constexpr int kStep = kInterleaved ? 2 : 1;  // elements from one x1 to the next
  using Angles = Pack<Accumulator<T>, kWidth>;
  Pack<T, kWidth> first, second;

  // The offset of the second pack from the first, and the end of the rotated elements as seen from
  // there (for the element-wise tail).
  __device__ static int64_t distance(int64_t half) { return kInterleaved ? kWidth : half; }
  __device__ static int64_t second_end(int64_t half) {
    return kInterleaved ? 2 * half - kWidth : half;
  }

  // Tails of short packs are loaded as zeros and not stored.
  __device__ void read(const T* head, int64_t at, int64_t half) {
    first = load_chunk<kPacked, kWidth>(head, kStep * at, kStep * half);
    second = load_chunk<kPacked, kWidth>(head + distance(half), kStep * at, second_end(half));
  }
  __device__ void write(T* head, int64_t at, int64_t half, const Angles& c, const Angles& s) const {
    // The rotation is computed in the accumulator type and rounded once, in place.
    const Angles x[2] = {widened(first), widened(second)};
    Angles y[2];
    // Constants after unrolling: the index arithmetic selects registers.
#pragma unroll
    for (int k = 0; k < kWidth; ++k) {
      const int i1 = kStep * k;  // of both packs together
      const int i2 = i1 + (kInterleaved ? 1 : kWidth);
      const Accumulator<T> a = x[i1 / kWidth].at[i1 % kWidth];
      const Accumulator<T> b = x[i2 / kWidth].at[i2 % kWidth];
      y[i1 / kWidth].at[i1 % kWidth] = a * c.at[k] - b * s.at[k];
      y[i2 / kWidth].at[i2 % kWidth] = b * c.at[k] + a * s.at[k];
    }
    store_chunk<kPacked>(head, kStep * at, kStep * half, rounded<T>(y[0]));
    store_chunk<kPacked>(head + distance(half), kStep * at, second_end(half), rounded<T>(y[1]));
  }
};

// Threads are numbered [rows, teams, chunks], chunks fastest. A team takes heads first, first +
// teams, ... of a row, so that neighbouring threads work on neighbouring heads and accesses are
// coalesced.
template <class T, bool kPacked, bool kInterleaved>
__global__ void __launch_bounds__(kChunkThreads) rotate_kernel(Rotation<T> r) {
  constexpr int kWidth = kPackWidth<T>;
  const int64_t chunks = (r.half + kWidth - 1) / kWidth;
  const int64_t teams = (r.heads + kHeadsAtOnce - 1) / kHeadsAtOnce;
  const int64_t thread = int64_t{blockIdx.x} * kChunkThreads + threadIdx.x;
  const int64_t team = thread / chunks;
  const int64_t at = (thread - team * chunks) * kWidth;
  const int64_t row = team / teams;
  if (row >= r.rows) return;
  // Rows are numbered [S, B], as positions are.
  const int64_t s = row / r.batch;
  const int64_t first = team - row * teams;
  T* heads = r.x + s * r.s_stride + (row - s * r.batch) * r.b_stride + first * r.head_stride;
  const int64_t distance = teams * r.head_stride;
  // All heads are loaded before the first is rotated.
  Pairs<T, kPacked, kInterleaved> pairs[kHeadsAtOnce];
#pragma unroll
  for (int i = 0; i < kHeadsAtOnce; ++i)
    if (first + i * teams < r.heads) pairs[i].read(heads + i * distance, at, r.half);
  // positions may be any integers within the table: they count within documents or context-parallel
  // shards. They are i32, but half is 64-bit, so the product does not overflow.
  const int64_t angle = r.positions[row] * r.half;
  // cos and sin have the width of `half`: both members of a pair share an angle.
  const auto cos = load_chunk<kPacked, kWidth>(r.cos + angle, at, r.half);
  auto sin = load_chunk<kPacked, kWidth>(r.sin + angle, at, r.half);
  // The inverse rotation only changes the sign of sin.
#pragma unroll
  for (int k = 0; k < kWidth; ++k) sin.at[k] *= r.direction;
#pragma unroll
  for (int i = 0; i < kHeadsAtOnce; ++i)
    if (first + i * teams < r.heads) pairs[i].write(heads + i * distance, at, r.half, cos, sin);
}

template <bool kInterleaved, class T>
void rotate(Stream& stream, const Rotation<T>& r) {
  constexpr int kWidth = kPackWidth<T>;
  // Packs if every head of every row is aligned and holds whole packs of pairs; single elements
  // otherwise. The tables are in the accumulator type, and their packs hold as many elements as
  // those of x.
  const bool packed = r.half % kWidth == 0 && r.s_stride % kWidth == 0 &&
                      r.b_stride % kWidth == 0 && r.head_stride % kWidth == 0 &&
                      can_pack<kWidth>(r.x) && can_pack<kWidth>(r.cos) && can_pack<kWidth>(r.sin);
  const int64_t chunks = (r.half + kWidth - 1) / kWidth;
  const int64_t teams = (r.heads + kHeadsAtOnce - 1) / kHeadsAtOnce;
  const int64_t threads = r.rows * teams * chunks;
  launch(stream, "rope", {(threads + kChunkThreads - 1) / kChunkThreads, dim3(kChunkThreads)},
         packed ? rotate_kernel<T, true, kInterleaved> : rotate_kernel<T, false, kInterleaved>, r);
}

}  // namespace

void CudaKernels::do_rope(Stream& stream, View x, ConstView cos, ConstView sin, ConstView positions,
                          bool inverse, RopePairs pairs) {
  dispatch_float(x.dtype(), "rope", [&]<class T>(TypeTag<T>) {
    using A = Accumulator<T>;
    if (x.numel() == 0 || cos.dim(1) == 0) return;
    const Rotation<T> rotation{x.data<T>(),
                               x.stride(0),
                               x.stride(1),
                               x.stride(2),
                               x.dim(0) * x.dim(1),
                               x.dim(1),
                               x.dim(2),
                               cos.dim(1),
                               cos.data<A>(),
                               sin.data<A>(),
                               positions.data<std::int32_t>(),
                               inverse ? A(-1) : A(1)};
    // The layout of the pairs is a template argument, so the index arithmetic is resolved at
    // compile time.
    if (pairs == RopePairs::halves)
      rotate<false>(stream, rotation);
    else
      rotate<true>(stream, rotation);
  });
}

}  // namespace tessera::cuda
