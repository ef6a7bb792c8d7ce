// How bandwidth-bound ops walk tensors [rows, n]: rows in chunks of up to 16 bytes. Which thread
// handles which chunk depends on shapes alone. Chunks move as packs where addresses and strides
// allow, element by element otherwise and at the end of a row.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "tessera/kernels/cuda/launch.cuh"
#include "tessera/kernels/cuda/math.cuh"
#include "tessera/kernels/cuda/vector.cuh"

namespace tessera::cuda {

/// The chunk at element `at` of a row of n; zeros behind its end. kPacked requires a whole, aligned
/// chunk.
template <bool kPacked, int kCount, class T>
__device__ Pack<T, kCount> load_chunk(const T* row, std::int64_t at, std::int64_t n) {
  if constexpr (kPacked) {
    return load_pack<kCount>(row + at);
  } else {
    // The tail stays zero-initialised, so callers may sum over a whole chunk.
    Pack<T, kCount> chunk{};
#pragma unroll
    for (int k = 0; k < kCount; ++k)
      if (at + k < n) chunk.at[k] = row[at + k];
    return chunk;
  }
}

/// Stores the elements of a chunk that are inside the row.
template <bool kPacked, int kCount, class T>
__device__ void store_chunk(T* row, std::int64_t at, std::int64_t n, const Pack<T, kCount>& chunk) {
  if constexpr (kPacked) {
    store_pack(row + at, chunk);
  } else {
#pragma unroll
    for (int k = 0; k < kCount; ++k)
      if (at + k < n) row[at + k] = chunk.at[k];
  }
}

/// Rows of contiguous elements with any stride between them.
template <class T>
struct StridedRows {
  T* data;
  std::int64_t stride;
  __device__ T* operator[](std::int64_t row) const { return data + row * stride; }
  /// Whether every row begins where a pack of kCount can.
  template <int kCount>
  bool packs(std::int64_t rows) const {
    // A single row has no neighbour, so its stride does not matter.
    return can_pack<kCount>(data) && (rows <= 1 || stride % kCount == 0);
  }
};

constexpr int kChunkThreads = 256;
constexpr int kChunksAhead = 4;  // chunks that a thread reads before it writes the first

/// Assignment of [rows, n] to threads: a team of `lanes` neighbouring threads takes a segment of 4
/// lanes chunks of a row. Lane i of a team takes chunks i, i + lanes, ... of the segment, so that
/// the team's accesses are coalesced. Short rows have smaller teams (a power of two), so that no
/// lanes idle.
struct ChunkTeams {
  ChunkTeams(std::int64_t rows_, std::int64_t n_, int width) : rows(rows_), n(n_) {
    const std::int64_t chunks = (n + width - 1) / width;
    const auto wanted = static_cast<unsigned>(std::clamp<std::int64_t>(chunks, 1, kWarp));
    // At most a warp: larger teams would not coalesce better, and segments cover long rows.
    lanes = static_cast<int>(std::bit_ceil(wanted));
    segments = (chunks + lanes * kChunksAhead - 1) / (lanes * kChunksAhead);
  }
  Grid grid() const {
    return {(rows * segments * lanes + kChunkThreads - 1) / kChunkThreads, dim3(kChunkThreads)};
  }
  std::int64_t rows, n, segments;
  int lanes;
};

// One thread's part. f.row(row) gives an object that reads a chunk into its Parts and writes the
// result.
template <bool kPacked, class F>
__global__ void __launch_bounds__(kChunkThreads) each_chunk_kernel(F f, ChunkTeams teams) {
  // Threads are numbered [rows, segments, lanes], lanes fastest.
  const std::int64_t thread = std::int64_t{blockIdx.x} * kChunkThreads + threadIdx.x;
  const std::int64_t team = thread / teams.lanes;
  // Saves a 64-bit division for rows of one segment.
  const std::int64_t row = teams.segments == 1 ? team : team / teams.segments;
  if (row >= teams.rows) return;
  const std::int64_t segment = team - row * teams.segments;
  // Elements between two chunks of one lane: the other lanes' chunks lie between them.
  const std::int64_t step = teams.lanes * F::kWidth;
  const std::int64_t first = segment * kChunksAhead * step + thread % teams.lanes * F::kWidth;
  // Captures the pointers of this row, so that read and write need only the column.
  const auto on_row = f.row(row);
  const auto is_pack = [&](int k) { return kPacked && first + k * step + F::kWidth <= teams.n; };
  // All packs are read before the first is written: four independent loads per thread hide latency.
  if constexpr (kPacked) {
    typename F::Parts parts[kChunksAhead];
#pragma unroll
    for (int k = 0; k < kChunksAhead; ++k)
      if (is_pack(k)) parts[k] = on_row.template read<true>(first + k * step, teams.n);
#pragma unroll
    for (int k = 0; k < kChunksAhead; ++k)
      if (is_pack(k)) on_row.template write<true>(first + k * step, teams.n, parts[k]);
  }
  // What is not a whole pack: everything if not kPacked, else the end of the row. Not unrolled,
  // since it rarely runs.
#pragma unroll 1
  for (int k = 0; k < kChunksAhead; ++k) {
    const std::int64_t at = first + k * step;
    if (at < teams.n && !is_pack(k))
      on_row.template write<false>(at, teams.n, on_row.template read<false>(at, teams.n));
  }
}

/// Runs f over the chunks of [rows, n]; `packed`: all rows of all tensors are aligned for packs.
template <class F>
void for_each_chunk(Stream& stream, const char* op, std::int64_t rows, std::int64_t n, bool packed,
                    const F& f) {
  // The mapping of chunks to threads depends on [rows, n] and the width only; `packed` selects how
  // a chunk is accessed. Elementwise results are therefore the same either way.
  const ChunkTeams teams(rows, n, F::kWidth);
  launch(stream, op, teams.grid(),
         packed ? each_chunk_kernel<true, F> : each_chunk_kernel<false, F>, f, teams);
}

}  // namespace tessera::cuda
