// What the tensor-core attention kernels share. A block of eight warps owns neighbouring queries,
// or keys, of one head; the other side streams past in tiles of 64 rows, one tile being copied into
// shared memory while another is multiplied. Nothing of size queries x keys ever leaves the chip,
// and no two blocks write the same element, so results repeat bit for bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "tessera/kernels/cuda/attention/attention_call.cuh"
#include "tessera/kernels/cuda/mma.cuh"

namespace tessera::cuda {

constexpr int kTileWarps = 8;
constexpr int kTileThreads = kTileWarps * kWarp;
constexpr int kTileKeys = 64;
constexpr int kBlockQueries = 16 * kTileWarps;  ///< where a block owns queries
constexpr int kTileQueries = 64;                ///< where queries stream past
constexpr float kLog2E = 1.44269504088896340736f;
constexpr float kLn2 = 0.69314718055994530942f;

/// Rows of kWidth 16-bit elements in shared memory. The eight-element chunks of a row change places
/// by its number, so that eight rows read at one column meet all banks.
template <class T, int kWidth>
struct Tile {
  static constexpr int kChunks = kWidth / 8;
  static constexpr std::size_t bytes(int rows) { return rows * kWidth * sizeof(T); }
  __device__ T* at(int row, int chunk) const {
    return data + row * kWidth + (chunk ^ (row & 7)) * 8;
  }
  /// The i-th of the tiles of this many rows that begin here.
  __device__ Tile stage(int rows, std::int64_t i) const { return {data + i * rows * kWidth}; }
  T* data;
};

/// Hands out the block's shared memory, part after part.
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

/// Keys do not lie in a tile in their own order: of each 16, key 4t + 2u + e is row 8u + 2t + e.
/// Columns of scores follow rows of keys, so that a lane holds four neighbouring keys of a query,
/// which is what one draw of random numbers serves.
__device__ inline int row_of_key(int key) {
  return (key & ~15) | (key & 2) << 2 | (key & 12) >> 1 | (key & 1);
}
__device__ inline int key_of_row(int row) {
  return (row & ~15) | (row & 6) << 1 | (row & 8) >> 2 | (row & 1);
}

/// One head of one sample, as rows of a tensor.
template <class T>
struct HeadRows {
  __device__ HeadRows(const Heads<T>& heads, std::int64_t b, std::int64_t h, std::int64_t rows)
      : data(heads.row(0, b, h)), stride(heads.row_stride), count(static_cast<int>(rows)) {}
  T* data;
  std::int64_t stride;
  int count;
};

/// Starts the copy of rows [first, first + kRows); rows outside [0, count) become 0.
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

/// Tiles of keys begin at positions that four divides, so the first may begin before key 0.
struct KeyTiles {
  __device__ KeyTiles(const Visibility& seen, Span span)
      : shift(static_cast<int>(seen.kv_start & 3)),
        begin(static_cast<int>(span.begin + shift) / kTileKeys),
        end(span.begin < span.end ? (static_cast<int>(span.end) + shift - 1) / kTileKeys + 1
                                  : begin) {}
  __device__ int first_key(int tile) const { return tile * kTileKeys - shift; }
  int shift, begin, end;
};

/// The keys and values that stream past a block of queries, two tiles of each in shared memory.
template <class T, int kHead>
struct KeyStream {
  __device__ void start(int tile) const {
    if (tile >= tiles.end) return;
    start_keys(k.stage(kTileKeys, tile % 2), from_k, tiles.first_key(tile));
    start_keys(v.stage(kTileKeys, tile % 2), from_v, tiles.first_key(tile));
  }
  /// Calls f(first key, k, v) for each tile; the first was started. All threads must call.
  template <class F>
  __device__ void run(F&& f) const {
    for (int tile = tiles.begin; tile < tiles.end; ++tile) {
      wait_for_copies();
      __syncthreads();  // the tile is there, and nobody reads the one before it any more
      start(tile + 1);
      f(tiles.first_key(tile), k.stage(kTileKeys, tile % 2), v.stage(kTileKeys, tile % 2));
    }
  }
  KeyTiles tiles;
  HeadRows<const T> from_k, from_v;
  Tile<T, kHead> k, v;
};

// In what follows a warp works on 16 rows; g and t are the lane's part as mma.cuh has it.
struct Lane {
  __device__ Lane()
      : index(static_cast<int>(threadIdx.x) % kWarp),
        warp(static_cast<int>(threadIdx.x) / kWarp),
        g(index / 4),
        t(index % 4) {}
  int index, warp, g, t;
};

/// A[16, 16 kSteps] = the tile's rows from row0 on.
template <int kSteps, class T, int kWidth>
__device__ void load_rows(std::uint32_t (&a)[kSteps][4], const Tile<T, kWidth>& tile, int row0) {
  const int lane = Lane().index;
#pragma unroll
  for (int k = 0; k < kSteps; ++k)
    load_matrices(a[k], tile.at(row0 + lane % 16, 2 * k + lane / 16));
}

/// A[16, 16] = the transpose of the tile's rows [row0, row0 + 16) at columns [8 chunk, 8 chunk +
/// 16).
template <class T, int kWidth>
__device__ void load_columns(std::uint32_t (&a)[4], const Tile<T, kWidth>& tile, int row0,
                             int chunk) {
  const int lane = Lane().index;
  load_transposed(a, tile.at(row0 + lane % 8 + lane / 16 * 8, chunk + lane / 8 % 2));
}

/// sums[16, 16] += A B^T, where B is the tile's rows [row0, row0 + 16).
template <int kSteps, class T, int kWidth>
__device__ void multiply_by_rows(float (&sums)[2][4], const std::uint32_t (&a)[kSteps][4],
                                 const Tile<T, kWidth>& tile, int row0) {
  const int lane = Lane().index;
#pragma unroll
  for (int k = 0; k < kSteps; ++k) {
    std::uint32_t b[4];
    load_matrices(b, tile.at(row0 + lane % 8 + lane / 16 * 8, 2 * k + lane / 8 % 2));
    multiply_add<T>(sums[0], a[k], b[0], b[1]);
    multiply_add<T>(sums[1], a[k], b[2], b[3]);
  }
}

/// sums[16, 8 kColumns] += A B, where B is the tile's rows [row0, row0 + 16) from a chunk on.
template <int kColumns, class T, int kWidth>
__device__ void multiply_by_columns(float (&sums)[kColumns][4], const std::uint32_t (&a)[4],
                                    const Tile<T, kWidth>& tile, int row0, int chunk = 0) {
  const int lane = Lane().index;
#pragma unroll
  for (int i = 0; i < kColumns; i += 2) {
    std::uint32_t b[4];
    load_transposed(b, tile.at(row0 + lane % 16, chunk + i + lane / 16));
    multiply_add<T>(sums[i], a, b[0], b[1]);
    multiply_add<T>(sums[i + 1], a, b[2], b[3]);
  }
}

/// A[16, 16] from sums of the same shape, rounded.
template <class T>
__device__ void round_to_rows(std::uint32_t (&a)[4], const float (&sums)[2][4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) a[i] = pack<T>(sums[i / 2][i % 2 * 2], sums[i / 2][i % 2 * 2 + 1]);
}

/// Rounds sums[16, 8 kColumns] times a factor into a tile: lane row g to `low`, g + 8 to `high`.
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

/// Copies rows [begin, end) of a tile to rows first + begin, ..., those inside [0, count). The work
/// is shared by `workers` threads.
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

/// Adds sums[16, 8 kColumns] times a factor to rows of a tensor from a column on, or puts them
/// there: lane row g to row `low`, g + 8 to `high`, where those are inside [0, count).
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

/// The two queries of a lane, g and g + 8 of its warp, and the keys that they see.
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
  /// Whether any query of the warp sees any, or all see all, of the keys [first, first + count).
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

/// Where a block works. Where attention is causal the last queries and the first keys have the most
/// to do, so those blocks come first.
struct BlockPlace {
  __device__ BlockPlace(int tiles, std::int64_t heads, std::int64_t batch, bool last_first)
      : b(blockIdx.x % (heads * batch) / heads), h(blockIdx.x % heads) {
    const int i = static_cast<int>(blockIdx.x / (heads * batch));
    tile = last_first ? tiles - 1 - i : i;
  }
  std::int64_t b, h;
  int tile;
};

/// The keys that a block of queries from `first` on sees, to stream through the tiles k and v.
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
