// What the attention kernels share. A warp owns one row (a query, or a key with its value) and a
// block of them owns neighbouring rows of one head; the rows of the other side stream past in tiles
// of 32 through shared memory, one lane for each. Nothing of size queries x keys ever exists, and
// no two blocks write the same element, so results repeat bit for bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "tessera/kernels/cuda/launch.cuh"
#include "tessera/kernels/cuda/math.cuh"
#include "tessera/kernels/dropout.h"
#include "tessera/kernels/specs.h"

namespace tessera::cuda {

constexpr int kRowsPerBlock = 8;  ///< one warp each
constexpr int kAttentionThreads = kRowsPerBlock * kWarp;
constexpr std::int64_t kMaxHeadSize = 256;

struct Span {
  std::int64_t begin, end;
  __device__ bool holds(std::int64_t i) const { return i >= begin && i < end; }
};

/// Who sees whom, as local indices. Causality, windows and documents all leave contiguous spans, in
/// both directions.
struct Visibility {
  Visibility(std::int64_t q, std::int64_t k, const AttentionSpec& spec)
      : queries(q),
        keys(k),
        q_start(spec.q_start),
        kv_start(spec.kv_start),
        window(spec.window),
        causal(spec.causal),
        documents(spec.cu_seqlens ? spec.cu_seqlens.data<std::int32_t>() : nullptr),
        boundaries(documents ? spec.cu_seqlens.dim(0) : 0) {}

  /// The keys that a query sees.
  __device__ Span keys_of(std::int64_t query) const {
    const std::int64_t position = q_start + query;
    Span span = document_at(position, {kv_start, kv_start + keys});
    if (causal) span.end = min(span.end, position + 1);
    if (window > 0) span.begin = max(span.begin, position - window + 1);
    return local(span, kv_start, keys);
  }
  /// The queries that see a key.
  __device__ Span queries_of(std::int64_t key) const {
    const std::int64_t position = kv_start + key;
    Span span = document_at(position, {q_start, q_start + queries});
    if (causal) span.begin = max(span.begin, position);
    if (window > 0 && window < span.end - position) span.end = position + window;
    return local(span, q_start, queries);
  }

  std::int64_t queries, keys, q_start, kv_start, window;
  bool causal;
  const std::int32_t* documents;
  std::int64_t boundaries;

 private:
  // The part of `span` in the document of a position: between the boundaries around it.
  __device__ Span document_at(std::int64_t position, Span span) const {
    std::int64_t low = 0;  // becomes the first boundary after the position
    std::int64_t high = boundaries;
    while (low < high) {
      const std::int64_t middle = (low + high) / 2;
      if (documents[middle] <= position)
        low = middle + 1;
      else
        high = middle;
    }
    if (low > 0) span.begin = max(span.begin, std::int64_t{documents[low - 1]});
    if (low < boundaries) span.end = min(span.end, std::int64_t{documents[low]});
    return span;
  }
  static __device__ Span local(Span span, std::int64_t start, std::int64_t count) {
    const std::int64_t begin = min(max(span.begin - start, std::int64_t{0}), count);
    return {begin, min(max(span.end - start, begin), count)};
  }
};

/// Dropout of probabilities, as kernels read it.
template <class A>
struct ProbabilityDropout {
  explicit ProbabilityDropout(const AttentionSpec& spec)
      : on(spec.dropout.p > 0),
        bound(dropout_bound(spec.dropout.p)),
        scale(static_cast<A>(1.0 / (1.0 - spec.dropout.p))),
        key(spec.dropout.key),
        samples(on ? spec.dropout.samples.data<std::int64_t>() : nullptr),
        head_start(spec.head_start),
        q_start(spec.q_start),
        kv_start(spec.kv_start) {}

  /// What the probability of a (local) key for a (local) query is multiplied by.
  __device__ A factor(std::int64_t b, std::int64_t head, std::int64_t query,
                      std::int64_t at) const {
    if (!on) return A(1);
    const std::int64_t position = kv_start + at;
    const Philox4 words =
        attention_dropout_words(key, samples[b], head_start + head, q_start + query, position / 4);
    return words.v[position % 4] >= bound ? scale : A(0);
  }

  bool on;
  std::uint32_t bound;
  A scale;
  RngKey key;
  const std::int64_t* samples;
  std::int64_t head_start, q_start, kv_start;
};

/// [rows, B, heads, D] with any strides but the last.
template <class T>
struct Heads {
  T* data;
  std::int64_t row_stride, b_stride, head_stride;
  __device__ T* row(std::int64_t i, std::int64_t b, std::int64_t h) const {
    return data + i * row_stride + b * b_stride + h * head_stride;
  }
};

template <class T, class V>
Heads<T> heads_of(const V& x) {
  return {x.template data<std::remove_const_t<T>>(), x.stride(0), x.stride(1), x.stride(2)};
}

/// The arguments that all three kernels have.
template <class T>
struct AttentionCall {
  using A = Accumulator<T>;
  AttentionCall(const ConstView& queries, const ConstView& keys, const ConstView& values,
                const AttentionSpec& spec)
      : q(heads_of<const T>(queries)),
        k(heads_of<const T>(keys)),
        v(heads_of<const T>(values)),
        batch(queries.dim(1)),
        heads(queries.dim(2)),
        group(queries.dim(2) / keys.dim(2)),
        d(static_cast<int>(queries.dim(3))),
        scale(static_cast<A>(spec.scale)),
        seen(queries.dim(0), keys.dim(0), spec),
        dropout(spec) {}

  Heads<const T> q, k, v;
  std::int64_t batch, heads, group;  ///< group: query heads per key/value head
  int d;
  A scale;
  Visibility seen;
  ProbabilityDropout<A> dropout;
};

/// Where a warp works.
struct Place {
  __device__ Place(std::int64_t rows, std::int64_t heads)
      : lane(static_cast<int>(threadIdx.x) % kWarp), warp(static_cast<int>(threadIdx.x) / kWarp) {
    const std::int64_t blocks = (rows + kRowsPerBlock - 1) / kRowsPerBlock;
    const std::int64_t head = blockIdx.x / blocks;
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

inline std::int64_t attention_blocks(std::int64_t rows, std::int64_t heads, std::int64_t batch) {
  return (rows + kRowsPerBlock - 1) / kRowsPerBlock * heads * batch;
}

/// From the first to the last of what any row of the block sees.
template <class F>
__device__ Span span_of_block(const Place& place, F&& span_of) {
  Span all{0, 0};
  for (std::int64_t row = place.first; row < place.last; ++row) {
    const Span span = span_of(row);
    if (span.begin >= span.end) continue;
    const bool none = all.begin >= all.end;
    all = {none ? span.begin : min(all.begin, span.begin), max(all.end, span.end)};
  }
  return all;
}

/// Shared memory of a block: two tiles of 32 rows, and two rows for each warp. Rows of tiles are
/// one element longer than they need be, so that lanes reading a column meet different banks.
template <class A>
struct SharedRows {
  static std::size_t bytes(std::int64_t d) {
    return static_cast<std::size_t>(2 * kWarp * (d + 1) + 2 * kRowsPerBlock * d) * sizeof(A);
  }
  __device__ SharedRows(unsigned char* memory, const Place& place, int d) : stride(d + 1) {
    tile1 = reinterpret_cast<A*>(memory);
    tile2 = tile1 + kWarp * stride;
    row1 = tile2 + kWarp * stride + 2 * place.warp * d;
    row2 = row1 + d;
  }
  int stride;
  A *tile1, *tile2, *row1, *row2;
};

/// One warp's row, scaled.
template <class T, class A = Accumulator<T>>
__device__ void load_row(A* to, const T* from, int lane, int d, A scale = A(1)) {
  for (int c = lane; c < d; c += kWarp) to[c] = load(from[c]) * scale;
}

/// Rows [first, last) of one head, at most 32, by the whole block.
template <class T, class A = Accumulator<T>>
__device__ void load_tile(A* tile, int stride, const Heads<const T>& from, const Place& place,
                          std::int64_t h, Span rows, int d, A scale = A(1)) {
  for (std::int64_t i = rows.begin + place.warp; i < rows.end; i += kRowsPerBlock)
    load_row(tile + (i - rows.begin) * stride, from.row(i, place.b, h), place.lane, d, scale);
}

template <class A>
__device__ A dot(const A* x, const A* y, int d) {
  A sum = 0;
  for (int c = 0; c < d; ++c) sum += x[c] * y[c];
  return sum;
}

/// Channels lane, lane + 32, ... of a row that a warp sums up.
template <class A, int kPerLane>
struct RowSum {
  __device__ void scale_by(A factor) {
    for (int i = 0; i < kPerLane; ++i) values[i] *= factor;
  }
  __device__ void add(A factor, const A* row, int lane, int d) {
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
      const int c = lane + i * kWarp;
      if (c < d) values[i] += factor * row[c];
    }
  }
  template <class T>
  __device__ void write(T* to, int lane, int d, A factor) const {
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
      const int c = lane + i * kWarp;
      if (c < d) store<T>(to[c], values[i] * factor);
    }
  }
  A values[kPerLane] = {};
};

/// Calls f(std::integral_constant<int, channels per lane>) for a head size.
template <class F>
void dispatch_head_size(const char* op, std::int64_t d, F&& f) {
  require_op(d <= kMaxHeadSize, op, "the CUDA backend takes head sizes up to 256");
  if (d <= 2 * kWarp)
    f(std::integral_constant<int, 2>{});
  else if (d <= 4 * kWarp)
    f(std::integral_constant<int, 4>{});
  else
    f(std::integral_constant<int, 8>{});
}

}  // namespace tessera::cuda
