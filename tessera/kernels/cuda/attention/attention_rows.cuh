// Building blocks of the plain attention kernels (attention.cu, attention_backward.cu), for every
// float type, stride and head size up to 256.
//
// A warp owns one row (a query, or a key with its value) and a block of eight warps owns eight
// neighbouring rows of one head. The rows of the other side stream past in tiles of 32 through
// shared memory, one per lane: lane i computes the score of tile row i. No matrix of size queries x
// keys is ever stored, and no two blocks write the same element, so results are bitwise
// reproducible.
//
// All arithmetic is in the accumulator type A: f32 for 16-bit types and f32, f64 for f64.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "tessera/kernels/cuda/attention/attention_call.cuh"
#include "tessera/kernels/cuda/launch.cuh"
#include "tessera/kernels/cuda/math.cuh"

namespace tessera::cuda {

constexpr int kRowsPerBlock = 8;  ///< one warp each
constexpr int kAttentionThreads = kRowsPerBlock * kWarp;
constexpr std::int64_t kMaxHeadSize = 256;

/// What a warp works on. Grid: blockIdx.x = (b * heads + h) * blocks + block of rows.
struct Place {
  __device__ Place(std::int64_t rows, std::int64_t heads)
      : lane(static_cast<int>(threadIdx.x) % kWarp), warp(static_cast<int>(threadIdx.x) / kWarp) {
    const std::int64_t blocks = (rows + kRowsPerBlock - 1) / kRowsPerBlock;
    const std::int64_t head = blockIdx.x / blocks;
    // The last block of a head may have warps without a row. They still copy tiles and reach the
    // barriers; `valid` keeps them from reading and writing rows.
    first = blockIdx.x % blocks * kRowsPerBlock;
    row = first + warp;
    valid = row < rows;
    last = min(first + kRowsPerBlock, rows);
    b = head / heads;
    h = head % heads;
  }
  int lane, warp;
  std::int64_t b, h;
  std::int64_t first, last;  ///< rows of the block
  std::int64_t row;          ///< of the warp, if valid
  bool valid;
};

/// Blocks of a grid over [batch, heads, rows].
inline std::int64_t attention_blocks(std::int64_t rows, std::int64_t heads, std::int64_t batch) {
  return (rows + kRowsPerBlock - 1) / kRowsPerBlock * heads * batch;
}

/// Shared memory of a block, in elements of A: tile1 [32, d + 1], tile2 [32, e + 1], and for each
/// warp row1 [d] and row2 [e]. Queries and keys have heads of d, values and outputs of e.
///
/// Rows of tiles are padded by one element, so that 32 lanes that read one column of 32 rows hit 32
/// different banks. The rows of a warp are read by all lanes at the same address, a broadcast.
template <class A>
struct SharedRows {
  static std::size_t bytes(std::int64_t d, std::int64_t e) {
    // 32 rows of each tile, padded by one element, plus two rows for each warp: 40 (d + e) + 64
    // elements. 80 KiB for f32 with d = e = 256.
    return static_cast<std::size_t>(kWarp * (d + e + 2) + kRowsPerBlock * (d + e)) * sizeof(A);
  }
  __device__ SharedRows(unsigned char* memory, const Place& place, int d, int e)
      : stride1(d + 1), stride2(e + 1) {
    tile1 = reinterpret_cast<A*>(memory);
    tile2 = tile1 + kWarp * stride1;
    row1 = tile2 + kWarp * stride2 + place.warp * (d + e);
    row2 = row1 + d;
  }
  int stride1, stride2;
  A *tile1, *tile2, *row1, *row2;
};

/// Loads one row into shared memory by one warp, widened to A and scaled. Lanes read neighbouring
/// elements, which needs no alignment.
template <class T, class A = Accumulator<T>>
__device__ void load_row(A* to, const T* from, int lane, int d, A scale = A(1)) {
  // The scale is applied in A, so 16-bit inputs lose no digits to it.
  for (int c = lane; c < d; c += kWarp) to[c] = load(from[c]) * scale;
}

/// Loads rows `rows`, at most 32, of one head by the whole block: warp w takes every eighth row.
/// The caller puts barriers before (the tile is free) and after (it is complete).
template <class T, class A = Accumulator<T>>
__device__ void load_tile(A* tile, int stride, const Heads<const T>& from, const Place& place,
                          std::int64_t h, Span rows, int d, A scale = A(1)) {
  for (std::int64_t i = rows.begin + place.warp; i < rows.end; i += kRowsPerBlock)
    load_row(tile + (i - rows.begin) * stride, from.row(i, place.b, h), place.lane, d, scale);
}

// Computed by one lane, in the order of the channels.
template <class A>
__device__ A dot(const A* x, const A* y, int d) {
  // One lane adds all channels, so no shuffle is needed. The padding of the tile keeps 32 lanes on
  // 32 different banks.
  A sum = 0;
  for (int c = 0; c < d; ++c) sum += x[c] * y[c];
  return sum;
}

/// A row of d channels that a warp sums up in registers: lane i holds channels i, i + 32, ..., at
/// most kPerLane of them.
template <class A, int kPerLane>
struct RowSum {
  __device__ void scale_by(A factor) {
    for (int i = 0; i < kPerLane; ++i) values[i] *= factor;
  }
  // Adds factor * row; rows of tiles are read without bank conflicts, lane by lane.
  __device__ void add(A factor, const A* row, int lane, int d) {
    // kPerLane is a constant, so values[] is indexed statically and stays in registers.
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
      const int c = lane + i * kWarp;
      if (c < d) values[i] += factor * row[c];
    }
  }
  template <class T>
  __device__ void write(T* to, int lane, int d, A factor, bool add = false) const {
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
      // Lanes write neighbouring channels. With `add` the old value is read, added in A and rounded
      // once.
      const int c = lane + i * kWarp;
      if (c < d) contribute<T>(to[c], values[i] * factor, add);
    }
  }
  A values[kPerLane] = {};
};

/// What a plain kernel is compiled for: 2, 4 or 8 channels per lane, so that RowSum stays in
/// registers; and whether values may have other heads than keys, and scores a soft cap. The common
/// case has neither, and needs fewer registers and instructions when that is known.
template <int kLane, bool kAny>
struct RowsVariant {
  static constexpr int kPerLane = kLane;
  static constexpr bool kGeneral = kAny;

  template <class Call>
  static __device__ int value_size(const Call& call) {
    return kGeneral ? call.e : call.d;
  }
  template <class Call, class A>
  static __device__ A capped(const Call& call, A score) {
    if constexpr (kGeneral) return call.capped(score);
    return score;
  }
};

/// Calls f(RowsVariant) for the head sizes of keys and values and a soft cap (0: none).
template <class F>
void dispatch_rows_variant(const char* op, std::int64_t d1, std::int64_t d2, double softcap,
                           F&& f) {
  const std::int64_t d = d1 > d2 ? d1 : d2;
  require_op(d <= kMaxHeadSize, op, "the CUDA backend takes head sizes up to 256");
  const auto with_lanes = [&]<int kPerLane>(std::integral_constant<int, kPerLane>) {
    if (softcap > 0 || d1 != d2)
      f(RowsVariant<kPerLane, true>{});
    else
      f(RowsVariant<kPerLane, false>{});
  };
  if (d <= 2 * kWarp)
    with_lanes(std::integral_constant<int, 2>{});
  else if (d <= 4 * kWarp)
    with_lanes(std::integral_constant<int, 4>{});
  else
    with_lanes(std::integral_constant<int, 8>{});
}

}  // namespace tessera::cuda
