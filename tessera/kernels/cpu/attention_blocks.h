// The parts that attention forward and backward share: which keys a query sees, block-wise loads,
// dropout of a block of probabilities, and the scratch memory of one thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "tessera/kernels/cpu/math.h"
#include "tessera/kernels/specs.h"

namespace tessera::cpu {

constexpr std::int64_t kQueryBlock = 128;
constexpr std::int64_t kKeyBlock = 128;

/// For each query of a sample the keys [begin, end) it sees, as local indices. Causality, windows
/// and packed documents are all contiguous ranges, so nothing else is ever masked.
class KeyRanges {
 public:
  static std::size_t bytes(std::int64_t batch, std::int64_t queries) {
    return static_cast<std::size_t>(batch * queries) * 2 * sizeof(std::int32_t);
  }

  /// Fills `memory` (of bytes(batch, queries)) from the spec.
  KeyRanges(void* memory, std::int64_t batch, std::int64_t queries, std::int64_t keys,
            const AttentionSpec& spec);

  std::int64_t begin(std::int64_t b, std::int64_t query) const { return range(b, query)[0]; }
  std::int64_t end(std::int64_t b, std::int64_t query) const { return range(b, query)[1]; }
  /// From the first to behind the last key that any of the queries [first, last) sees: both ends
  /// only ever grow with the query's position.
  std::int64_t begin_of(std::int64_t b, std::int64_t first, std::int64_t) const {
    return begin(b, first);
  }
  std::int64_t end_of(std::int64_t b, std::int64_t, std::int64_t last) const {
    return end(b, last - 1);
  }

 private:
  std::int32_t* range(std::int64_t b, std::int64_t query) const {
    return ranges_ + 2 * (b * queries_ + query);
  }

  std::int32_t* ranges_;
  std::int64_t queries_;
};

/// Rows of one head: element (i, j) is data[i * stride + j].
template <class T>
struct HeadRows {
  T* data;
  std::int64_t stride;
};

template <class T>
HeadRows<const T> head_rows(const ConstView& x, std::int64_t b, std::int64_t h) {
  return {x.data<T>() + b * x.stride(1) + h * x.stride(2), x.stride(0)};
}
template <class T>
HeadRows<T> head_rows(const View& x, std::int64_t b, std::int64_t h) {
  return {x.data<T>() + b * x.stride(1) + h * x.stride(2), x.stride(0)};
}

template <class T, class A = Accumulator<T>>
void load_block(A* to, HeadRows<const T> from, std::int64_t row, std::int64_t rows, std::int64_t d,
                A scale = A(1)) {
  for (std::int64_t i = 0; i < rows; ++i) {
    const T* in = from.data + (row + i) * from.stride;
#pragma omp simd
    for (std::int64_t j = 0; j < d; ++j) to[i * d + j] = load(in[j]) * scale;
  }
}

/// The same block transposed: to[d, rows], with rows `stride` apart. Products with it are the
/// fastest kind for the BLAS, and stores are in order.
template <class T, class A = Accumulator<T>>
void load_transposed(A* to, std::int64_t stride, HeadRows<const T> from, std::int64_t row,
                     std::int64_t rows, std::int64_t d) {
  constexpr std::int64_t kTile = 16;
  for (std::int64_t first = 0; first < rows; first += kTile) {
    const std::int64_t last = std::min(rows, first + kTile);
    const T* in = from.data + row * from.stride;
    for (std::int64_t j = 0; j < d; ++j)
      for (std::int64_t i = first; i < last; ++i)
        to[j * stride + i] = load(in[i * from.stride + j]);
  }
}

template <class T, class A = Accumulator<T>>
void store_block(HeadRows<T> to, const A* from, std::int64_t row, std::int64_t rows, std::int64_t d,
                 A scale = A(1), bool add = false) {
  for (std::int64_t i = 0; i < rows; ++i) {
    T* out = to.data + (row + i) * to.stride;
    const A* in = from + i * d;
    if (add) {
#pragma omp simd
      for (std::int64_t j = 0; j < d; ++j) store<T>(out[j], load(out[j]) + in[j] * scale);
    } else {
#pragma omp simd
      for (std::int64_t j = 0; j < d; ++j) store<T>(out[j], in[j] * scale);
    }
  }
}

/// The same into a head of a gradient that is in T or in its accumulator.
template <class T, class A = Accumulator<T>>
void store_gradient(const View& to, std::int64_t b, std::int64_t h, const A* from, std::int64_t row,
                    std::int64_t rows, A scale, bool add) {
  if (to.dtype() == dtype_of<T>())
    store_block<T>(head_rows<T>(to, b, h), from, row, rows, to.dim(3), scale, add);
  else
    store_block<A>(head_rows<A>(to, b, h), from, row, rows, to.dim(3), scale, add);
}

/// Where a block of scores lies: local indices of its first row and column, and its size.
struct ScoreBlock {
  std::int64_t query, rows, key, columns;
};

/// Multiplies each probability by 0 or 1 / (1 - p), as its global coordinates say. Rows have stride
/// kKeyBlock.
template <class A>
void drop_block(A* scores, const ScoreBlock& block, const AttentionSpec& spec, std::int64_t b,
                std::int64_t head);

/// Soft cap: each score s becomes cap tanh(s / cap). Rows have stride kKeyBlock.
template <class A>
void cap_block(A* scores, const ScoreBlock& block, A cap);

/// What the size of a thread's scratch follows from.
struct AttentionSizes {
  AttentionSizes(const Shape& q, const Shape& k, const Shape& v)
      : queries(q[0]), group(q[2] / k[2]), d(q[3]), e(v[3]) {}
  std::int64_t queries, group;  ///< group: query heads per key/value head
  std::int64_t d, e;            ///< head sizes of q and k, and of v
};

/// Scratch of one thread, laid out in the workspace.
template <class A>
struct AttentionScratch {
  A *q, *k, *v, *k_transposed, *v_transposed, *d_o, *scores, *d_scores, *out, *dk, *dv, *maximum,
      *sum, *delta;
  A* dq;  ///< all queries of one group of heads

  /// Elements needed; assigns the pointers when `memory` is given.
  std::size_t lay_out(A* memory, const AttentionSizes& sizes);
};

}  // namespace tessera::cpu
