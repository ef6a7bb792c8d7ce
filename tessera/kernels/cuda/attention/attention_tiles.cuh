// Building blocks of the tensor-core attention kernels (attention_tensor*.cu), for bf16 and f16
// with head sizes 64 and 128. The scheme is that of FlashAttention-2 (Dao, 2023): a block of eight
// warps owns neighbouring queries, or keys, of one head; the other side streams past in tiles of 64
// rows. Two tiles are in shared memory: cp.async fills one while the tensor cores multiply the
// other.
//
// No matrix of size queries x keys is ever written to global memory. No two blocks write the same
// element and there are no atomics, so results are bitwise reproducible.
//
// Conventions: D is the head size (kHead); all tiles are row-major with D elements to a row,
// swizzled as Tile says; products take 16-bit inputs and sum in f32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "tessera/kernels/cuda/attention/attention_call.cuh"
#include "tessera/kernels/cuda/mma.cuh"

namespace tessera::cuda {

// Eight warps with 16 queries each make 128 queries per block. Every tile of keys that is copied to
// shared memory then serves 128 queries, and each warp's m16n8k16 fragments stay in registers.
// Tiles of 64 keys keep two stages of k and v within 64 KiB for D = 128.
constexpr int kTileWarps = 8;
constexpr int kTileThreads = kTileWarps * kWarp;
constexpr int kTileKeys = 64;
// Queries per block in the forward pass and in the dq pass; the dk/dv pass owns 64 keys instead.
constexpr int kBlockQueries = 16 * kTileWarps;  ///< where a block owns queries
constexpr int kTileQueries = 64;                ///< where queries stream past
// Scores are kept in units of log2, since the hardware's exponential is base 2:
// e^x = 2^(x log2(e)), and ln(x) = log2(x) ln(2).
constexpr float kLog2E = 1.44269504088896340736f;
constexpr float kLn2 = 0.69314718055994530942f;

/// Rows of kWidth 16-bit elements in shared memory, in chunks of eight elements (16 bytes), the
/// unit of cp.async and of a row of ldmatrix.
///
/// Swizzle: chunk c of row r is stored at place c ^ (r % 8). A row of 64 elements is 128 bytes, all
/// 32 banks, so without the swizzle the eight rows that one ldmatrix phase reads at one column
/// would start in the same bank (an 8-way conflict). With it they cover eight different 16-byte
/// bank groups.
template <class T, int kWidth>
struct Tile {
  static constexpr int kChunks = kWidth / 8;
  static constexpr std::size_t bytes(int rows) { return rows * kWidth * sizeof(T); }
  /// Address of a chunk. `chunk` counts within the row, before swizzling.
  __device__ T* at(int row, int chunk) const {
    return data + row * kWidth + (chunk ^ (row & 7)) * 8;
  }
  /// The i-th of the tiles of this many rows that begin here.
  __device__ Tile stage(int rows, std::int64_t i) const { return {data + i * rows * kWidth}; }
  T* data;
};

/// Lays out the block's dynamic shared memory, one part after another. Parts are multiples of 16
/// bytes, so that every tile is aligned for 16-byte copies.
struct SharedLayout {
  template <class T>
  __device__ T* take(int count) {
    T* part = reinterpret_cast<T*>(next);
    next += count * sizeof(T);
    return part;
  }
  template <class T, int kWidth>
  __device__ Tile<T, kWidth> tile(int rows) {
    return {take<T>(rows * kWidth)};
  }
  unsigned char* next;
};

/// Keys are permuted within each group of 16 rows of a tile: key 4t + 2u + e is stored in row 8u +
/// 2t + e (t < 4, u < 2, e < 2).
///
/// Rows of keys are columns of scores. In an accumulator fragment a lane holds columns 2t and 2t +
/// 1 of each 8-column block u, which under this permutation are the four neighbouring keys 4t ...
/// 4t + 3: one Philox call yields the dropout decisions of exactly four neighbouring keys. Rows of
/// v are permuted likewise, so P v sums over the same keys.
__device__ inline int row_of_key(int key) {
  return (key & ~15) | (key & 2) << 2 | (key & 12) >> 1 | (key & 1);
}
/// The inverse of row_of_key.
__device__ inline int key_of_row(int row) {
  return (row & ~15) | (row & 6) << 1 | (row & 8) >> 2 | (row & 1);
}

/// One head of one sample: `count` rows of D elements, `stride` elements apart.
template <class T>
struct HeadRows {
  __device__ HeadRows(const Heads<T>& heads, std::int64_t b, std::int64_t h, std::int64_t rows)
      : data(heads.row(0, b, h)), stride(heads.row_stride), count(static_cast<int>(rows)) {}
  T* data;
  std::int64_t stride;
  int count;
};

/// Starts the asynchronous copy of rows [first, first + kRows) of a head into a tile; row i goes to
/// tile row order(i). Rows outside [0, count) are filled with zeros, which keeps the products
/// finite; masking decides what counts.
///
/// Consecutive threads copy consecutive 16-byte chunks of a row, so that global reads are
/// coalesced: 256 threads cover 32 rows at D = 64 and 16 rows at D = 128 in one step.
template <int kRows, class T, int kHead, class Order>
__device__ void start_rows(const Tile<T, kHead>& tile, const HeadRows<const T>& from, int first,
                           Order&& order) {
  constexpr int kStep = kTileThreads / Tile<T, kHead>::kChunks;  // rows in one go
  const int thread = static_cast<int>(threadIdx.x);
  const int chunk = thread % Tile<T, kHead>::kChunks;
  const int row0 = thread / Tile<T, kHead>::kChunks;
  const T* source = from.data + (first + row0) * from.stride + chunk * 8;
#pragma unroll
  for (int row = 0; row < kRows; row += kStep) {
    // cp.async with a source size of 0 reads nothing, so that the address of a row outside the
    // tensor is never dereferenced.
    const int at = first + row + row0;
    copy_async<16>(tile.at(order(row + row0), chunk), source + row * from.stride,
                   at >= 0 && at < from.count);
  }
}
template <int kRows, class T, int kHead>
__device__ void start_queries(const Tile<T, kHead>& tile, const HeadRows<const T>& from,
                              int first) {
  start_rows<kRows>(tile, from, first, [](int row) { return row; });
}
template <class T, int kHead>
__device__ void start_keys(const Tile<T, kHead>& tile, const HeadRows<const T>& from, int first) {
  start_rows<kTileKeys>(tile, from, first, [](int row) { return row_of_key(row); });
}

/// Tiles of a span of keys. They start at global positions that are multiples of four, because
/// dropout draws are shared by aligned groups of four positions. If kv_start is not a multiple of
/// four, the first tile therefore starts up to three rows before key 0; those rows are zeros and
/// masked.
struct KeyTiles {
  __device__ KeyTiles(const Visibility& seen, Span span)
      : shift(static_cast<int>(seen.kv_start & 3)),
        begin(static_cast<int>(span.begin + shift) / kTileKeys),
        end(span.begin < span.end ? (static_cast<int>(span.end) + shift - 1) / kTileKeys + 1
                                  : begin) {}
  /// Local number of the first key of a tile; negative for the first tile when shift > 0.
  __device__ int first_key(int tile) const { return tile * kTileKeys - shift; }
  int shift, begin, end;
};

/// The keys and values that stream past a block of queries, double-buffered: tile i is in stage i %
/// 2.
template <class T, int kHead>
struct KeyStream {
  /// Starts the copy of a tile's k and v; does nothing behind the last tile.
  __device__ void start(int tile) const {
    if (tile >= tiles.end) return;
    start_keys(k.stage(kTileKeys, tile % 2), from_k, tiles.first_key(tile));
    start_keys(v.stage(kTileKeys, tile % 2), from_v, tiles.first_key(tile));
  }
  /// Calls f(first key, k, v) for each tile; the caller has started the copy of the first. All
  /// threads of the block must call it, since it contains block barriers.
  template <class F>
  __device__ void run(F&& f) const {
    for (int tile = tiles.begin; tile < tiles.end; ++tile) {
      // wait_for_copies covers this thread's own copies, the barrier those of all threads. The
      // barrier also orders the last reads of tile - 1 before start(tile + 1), which overwrites its
      // stage. One barrier per tile is enough.
      wait_for_copies();
      __syncthreads();
      start(tile + 1);
      f(tiles.first_key(tile), k.stage(kTileKeys, tile % 2), v.stage(kTileKeys, tile % 2));
    }
  }
  KeyTiles tiles;
  HeadRows<const T> from_k, from_v;
  Tile<T, kHead> k, v;
};

// In what follows a warp works on 16 rows. g = lane / 4 and t = lane % 4 are the lane's coordinates
// in an mma fragment: it holds rows g and g + 8, and columns 2t and 2t + 1 (mma.cuh).
struct Lane {
  __device__ Lane()
      : index(static_cast<int>(threadIdx.x) % kWarp),
        warp(static_cast<int>(threadIdx.x) / kWarp),
        g(index / 4),
        t(index % 4) {}
  int index, warp, g, t;
};

/// A[16, 16 kSteps] = the tile's rows [row0, row0 + 16), as kSteps A fragments.
template <int kSteps, class T, int kWidth>
__device__ void load_rows(std::uint32_t (&a)[kSteps][4], const Tile<T, kWidth>& tile, int row0) {
  // Addresses for ldmatrix.x4: lanes 0-15 give rows 0-15 of the left chunk, lanes 16-31 those of
  // the right chunk. This is the register order of the A operand: (rows 0-7, left), (rows 8-15,
  // left), then the same for the right half.
  const int lane = Lane().index;
#pragma unroll
  for (int k = 0; k < kSteps; ++k)
    load_matrices(a[k], tile.at(row0 + lane % 16, 2 * k + lane / 16));
}

/// A[16, 16] = the transpose of the tile's rows [row0, row0 + 16) at columns [8 chunk, 8 chunk +
/// 16). ldmatrix.trans transposes each 8 x 8 matrix; swapping the two off-diagonal ones is done by
/// the addresses.
template <class T, int kWidth>
__device__ void load_columns(std::uint32_t (&a)[4], const Tile<T, kWidth>& tile, int row0,
                             int chunk) {
  const int lane = Lane().index;
  load_transposed(a, tile.at(row0 + lane % 8 + lane / 16 * 8, chunk + lane / 8 % 2));
}

/// sums[16, 16] += A B^T, where B is the tile's rows [row0, row0 + 16); the sum runs over the
/// columns. Used for S = q k^T and for d_o v^T.
template <int kSteps, class T, int kWidth>
__device__ void multiply_by_rows(float (&sums)[2][4], const std::uint32_t (&a)[kSteps][4],
                                 const Tile<T, kWidth>& tile, int row0) {
  // The mma's B operand is stored by columns, and the columns of B^T are the tile's rows, so no
  // transposition is needed. One ldmatrix.x4 yields two B operands: rows 0-7 and rows 8-15.
  const int lane = Lane().index;
#pragma unroll
  for (int k = 0; k < kSteps; ++k) {
    std::uint32_t b[4];
    load_matrices(b, tile.at(row0 + lane % 8 + lane / 16 * 8, 2 * k + lane / 8 % 2));
    multiply_add<T>(sums[0], a[k], b[0], b[1]);
    multiply_add<T>(sums[1], a[k], b[2], b[3]);
  }
}

/// sums[16, 8 kColumns] += A B, where B is the tile's rows [row0, row0 + 16) at chunks [chunk,
/// chunk + kColumns); the sum runs over the 16 rows. Used for P v, dS k, P^T d_o and dS^T q.
template <int kColumns, class T, int kWidth>
__device__ void multiply_by_columns(float (&sums)[kColumns][4], const std::uint32_t (&a)[4],
                                    const Tile<T, kWidth>& tile, int row0, int chunk = 0) {
  // Here the columns of B are columns of the tile, so the load transposes. One ldmatrix.x4 yields
  // the operands of two neighbouring chunks.
  const int lane = Lane().index;
#pragma unroll
  for (int i = 0; i < kColumns; i += 2) {
    std::uint32_t b[4];
    load_transposed(b, tile.at(row0 + lane % 16, chunk + i + lane / 16));
    multiply_add<T>(sums[i], a, b[0], b[1]);
    multiply_add<T>(sums[i + 1], a, b[2], b[3]);
  }
}

/// A[16, 16] from accumulators of the same shape, rounded to T. The D fragments of two neighbouring
/// 8-column blocks have the lane layout of one A fragment, so the probabilities of S = q k^T become
/// the left operand of P v without any shuffle.
template <class T>
__device__ void round_to_rows(std::uint32_t (&a)[4], const float (&sums)[2][4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) a[i] = pack<T>(sums[i / 2][i % 2 * 2], sums[i / 2][i % 2 * 2 + 1]);
}

/// Rounds sums[16, 8 kColumns] times a factor into a tile, from a chunk on: the lane's row g goes
/// to row `low`, row g + 8 to `high`. A lane writes two elements (4 bytes) at a time; the four
/// lanes of a row fill one 16-byte chunk, and the swizzle spreads the eight rows over all banks.
template <int kColumns, class T, int kWidth>
__device__ void store_sums(const Tile<T, kWidth>& tile, int low, int high, int chunk,
                           const float (&sums)[kColumns][4], float low_factor, float high_factor) {
  const int t = Lane().t;
#pragma unroll
  for (int i = 0; i < kColumns; ++i) {
    *reinterpret_cast<std::uint32_t*>(tile.at(low, chunk + i) + 2 * t) =
        pack<T>(sums[i][0] * low_factor, sums[i][1] * low_factor);
    *reinterpret_cast<std::uint32_t*>(tile.at(high, chunk + i) + 2 * t) =
        pack<T>(sums[i][2] * high_factor, sums[i][3] * high_factor);
  }
}

/// Copies rows [begin, end) of a tile to rows first + begin, ... of a tensor, those inside [0,
/// count). Work is divided among `workers` threads, 16 bytes each: going through shared memory
/// turns the 4-byte pieces of an accumulator fragment into coalesced 16-byte stores.
template <class T, int kHead>
__device__ void write_rows(const HeadRows<T>& to, int first, const Tile<T, kHead>& tile, int begin,
                           int end, int worker, int workers) {
  constexpr int kChunks = Tile<T, kHead>::kChunks;
  for (int i = begin * kChunks + worker; i < end * kChunks; i += workers) {
    const int row = i / kChunks;
    const int chunk = i % kChunks;
    if (first + row < 0 || first + row >= to.count) continue;
    *reinterpret_cast<uint4*>(to.data + (first + row) * to.stride + chunk * 8) =
        *reinterpret_cast<const uint4*>(tile.at(row, chunk));
  }
}

/// Adds sums[16, 8 kColumns] times a factor to rows of a tensor from a column on, or stores them if
/// not `add`: the lane's row g to row `low`, g + 8 to `high`, where those are inside [0, count).
/// For gradients that accumulate or are kept in f32. Each element belongs to one lane of one block,
/// so that the read-modify-write needs no atomics.
template <int kColumns, class G>
__device__ void contribute_sums(const HeadRows<G>& to, int low, int high, int column,
                                const float (&sums)[kColumns][4], float factor, bool add) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int row = r == 0 ? low : high;
    if (row < 0 || row >= to.count) continue;
    G* const at = to.data + row * to.stride + column + 2 * Lane().t;
#pragma unroll
    for (int i = 0; i < kColumns; ++i) {
      contribute<G>(at[8 * i], sums[i][2 * r] * factor, add);
      contribute<G>(at[8 * i + 1], sums[i][2 * r + 1] * factor, add);
    }
  }
}

/// The two queries of a lane, rows g and g + 8 of its warp, and the span of keys that each sees.
/// Queries behind the end of the sequence see none.
struct LaneQueries {
  __device__ LaneQueries(const Visibility& seen, std::int64_t b, int first) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      query[r] = first + Lane().g + 8 * r;
      const Span span = query[r] < seen.queries ? seen.keys_of(b, query[r]) : Span{0, 0};
      begin[r] = static_cast<int>(span.begin);
      end[r] = static_cast<int>(span.end);
    }
  }
  __device__ bool sees(int r, int key) const { return key >= begin[r] && key < end[r]; }
  /// Warp-wide tests for the keys [first, first + count): whether any query sees any of them
  /// (otherwise the warp skips the tile), and whether all queries see all of them (then no element
  /// needs a mask). Votes rather than per-lane tests, since mma and ldmatrix need the whole warp.
  __device__ bool see_any(int first, int count) const {
    const bool mine = (begin[0] < first + count && end[0] > first) ||
                      (begin[1] < first + count && end[1] > first);
    return __any_sync(kAllLanes, mine);
  }
  __device__ bool see_all(int first, int count) const {
    const bool mine = begin[0] <= first && begin[1] <= first && end[0] >= first + count &&
                      end[1] >= first + count;
    return __all_sync(kAllLanes, mine);
  }
  int query[2], begin[2], end[2];
};

/// Which tile, sample and head a block works on: blockIdx.x = (i * batch + b) * heads + h. The tile
/// varies slowest, and the tiles with the most work come first: blocks are dispatched in order, so
/// that the short ones fill the gaps at the end. With a causal mask those are the last queries, or
/// the first keys.
struct BlockPlace {
  __device__ BlockPlace(int tiles, std::int64_t heads, std::int64_t batch, bool last_first)
      : b(blockIdx.x % (heads * batch) / heads), h(blockIdx.x % heads) {
    const int i = static_cast<int>(blockIdx.x / (heads * batch));
    tile = last_first ? tiles - 1 - i : i;
  }
  std::int64_t b, h;
  int tile;
};

/// The keys that a block of queries from `first` on sees, to stream through the tiles k and v. With
/// grouped-query attention `group` query heads read the same key/value head.
template <class T, int kHead>
__device__ KeyStream<T, kHead> keys_for(const AttentionCall<T>& call, const BlockPlace& at,
                                        int first, const Tile<T, kHead>& k,
                                        const Tile<T, kHead>& v) {
  const Span queries{first, min(std::int64_t{first + kBlockQueries}, call.seen.queries)};
  return {{call.seen, call.seen.keys_of(at.b, queries)},
          {call.k, at.b, at.h / call.group, call.seen.keys},
          {call.v, at.b, at.h / call.group, call.seen.keys},
          k,
          v};
}

/// Calls f(TypeTag<T>, std::integral_constant<int, head size>) for heads that fit.
template <class F>
void dispatch_tiles(const ConstView& heads, F&& f) {
  const auto by_size = [&]<class T>(TypeTag<T> type) {
    if (heads.dim(3) == 64)
      f(type, std::integral_constant<int, 64>{});
    else
      f(type, std::integral_constant<int, 128>{});
  };
  if (heads.dtype() == DType::bf16)
    by_size(TypeTag<BFloat16>{});
  else
    by_size(TypeTag<Float16>{});
}

}  // namespace tessera::cuda
