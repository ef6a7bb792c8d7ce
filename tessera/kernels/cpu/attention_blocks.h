// Shared parts of attention forward and backward: the range of keys that each query sees, loads and
// stores of blocks, dropout and soft cap of a block of scores, and the scratch memory of one
// thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "tessera/kernels/cpu/math.h"
#include "tessera/kernels/specs.h"

namespace tessera::cpu {

/// Size of a block of scores. 128 x 128 f32 scores are 64 KiB, and the blocks of Q, K and V with a
/// head size of 128 are as large: together they fit in the L2 cache, while the products are large
/// enough for the BLAS. The sizes are constants, so sums are cut in the same way on any number of
/// threads.
constexpr std::int64_t kQueryBlock = 128;
constexpr std::int64_t kKeyBlock = 128;

/// For each query of a sample the keys [begin, end) that it sees, as local indices: i32 [batch,
/// queries, 2]. Causality, windows, chunks and packed documents all give one contiguous range, and
/// so does their intersection, so no other form of mask is needed. begin == end means that the
/// query sees no key.
class KeyRanges {
 public:
  static std::size_t bytes(std::int64_t batch, std::int64_t queries) {
    return static_cast<std::size_t>(batch * queries) * 2 * sizeof(std::int32_t);
  }

  /// Fills `memory`, which has bytes(batch, queries) bytes, from the spec.
  KeyRanges(void* memory, std::int64_t batch, std::int64_t queries, std::int64_t keys,
            const AttentionSpec& spec);

  std::int64_t begin(std::int64_t b, std::int64_t query) const { return range(b, query)[0]; }
  std::int64_t end(std::int64_t b, std::int64_t query) const { return range(b, query)[1]; }
  /// Begin and end of the keys that any of the queries [first, last) sees. Both bounds are
  /// non-decreasing in the query's position, so they are those of the first and the last query.
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

/// The rows of one head of a [rows, B, heads, D] tensor: element (i, j) is data[i * stride + j].
/// Rows are B x heads x D elements apart if the tensor is contiguous.
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

/// Widens `rows` rows of d channels from `row` on into the contiguous block to[rows, d], times
/// scale.
template <class T, class A = Accumulator<T>>
void load_block(A* to, HeadRows<const T> from, std::int64_t row, std::int64_t rows, std::int64_t d,
                A scale = A(1)) {
  for (std::int64_t i = 0; i < rows; ++i) {
    const T* in = from.data + (row + i) * from.stride;
#pragma omp simd
    for (std::int64_t j = 0; j < d; ++j) to[i * d + j] = load(in[j]) * scale;
  }
}

/// The same block transposed: to[d, rows], with rows `stride` elements apart. The BLAS is fastest
/// if neither operand has to be transposed. Stores are sequential within a tile of 16 source rows,
/// few enough that their cache lines stay in L1 while the loop runs over the channels.
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

/// The reverse of load_block: rounds from[rows, d] times scale into the head, or adds it to what is
/// there with `add`; the addition is done in A, before the rounding.
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

/// store_block into head (b, h) of a gradient whose dtype is T or T's accumulator (checked by
/// checks_attention.cpp).
template <class T, class A = Accumulator<T>>
void store_gradient(const View& to, std::int64_t b, std::int64_t h, const A* from, std::int64_t row,
                    std::int64_t rows, A scale, bool add) {
  if (to.dtype() == dtype_of<T>())
    store_block<T>(head_rows<T>(to, b, h), from, row, rows, to.dim(3), scale, add);
  else
    store_block<A>(head_rows<A>(to, b, h), from, row, rows, to.dim(3), scale, add);
}

/// The position of a block of scores in [S, T]: local indices of its first query and key, and its
/// size (at most kQueryBlock x kKeyBlock; blocks at the edges are smaller).
struct ScoreBlock {
  std::int64_t query, rows, key, columns;
};

/// Dropout: multiplies each element by 0 or 1 / (1 - p), chosen by its global sample, head, query
/// and key position (kernels/dropout.h), hence alike in forward and backward and in every parallel
/// layout. Rows have stride kKeyBlock.
template <class A>
void drop_block(A* scores, const ScoreBlock& block, const AttentionSpec& spec, std::int64_t b,
                std::int64_t head);

/// Soft cap: each score s becomes cap tanh(s / cap). Rows have stride kKeyBlock.
template <class A>
void cap_block(A* scores, const ScoreBlock& block, A cap);

/// The sizes that determine a thread's scratch memory.
struct AttentionSizes {
  AttentionSizes(const Shape& q, const Shape& k, const Shape& v)
      : queries(q[0]), group(q[2] / k[2]), d(q[3]), e(v[3]) {}
  std::int64_t queries, group;  ///< group: query heads per key/value head
  std::int64_t d, e;            ///< head sizes of q and k, and of v
};

/// Scratch memory of one thread, laid out in the workspace. With Q = kQueryBlock, T = kKeyBlock: q
/// [Q, D]; d_o, out [Q, E]; k, dk [T, D]; v, dv [T, E]; k_transposed [D, T]; v_transposed [E, T];
/// scores, d_scores [Q, T]; maximum, sum [Q]; delta [group, queries]. The forward uses q,
/// k_transposed, v, scores, out, maximum and sum.
template <class A>
struct AttentionScratch {
  A *q, *k, *v, *k_transposed, *v_transposed, *d_o, *scores, *d_scores, *out, *dk, *dv, *maximum,
      *sum, *delta;
  A* dq;  ///< [group, queries, D]

  /// Returns the number of elements needed, and sets the pointers if `memory` is not null.
  std::size_t lay_out(A* memory, const AttentionSizes& sizes);
};

}  // namespace tessera::cpu
