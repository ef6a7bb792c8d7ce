// Shared by the norm kernels: rows of tensors of two or three dimensions, and the weights.
#pragma once

#include <algorithm>

#include "tessera/kernels/cuda/chunks.cuh"
#include "tessera/kernels/specs.h"

namespace tessera::cuda {

/// The rows of [N, C] or [N, G, C] by number, row-major; G is the number of groups or heads that
/// are normalised separately (query-key norm).
struct RowNumbers {
  // No channels would be a division by zero; then there are no elements either.
  explicit RowNumbers(const ConstView& x)
      : count(x.numel() / std::max<std::int64_t>(1, x.dim(-1))),
        inner(x.rank() == 2 ? 1 : x.dim(1)) {}
  struct Place {
    std::int64_t outer, inner;
  };
  // Divisions of 64-bit integers are slow, and two dimensions need none.
  __device__ Place place(std::int64_t row) const {
    if (inner == 1) return {row, 0};
    return {row / inner, row % inner};
  }
  std::int64_t count, inner;
};

// Rows of C contiguous channels with any stride between them.
template <class T>
struct NormRows {
  // Two dimensions have no inner one: its stride is 0 and its index always 0.
  template <class V>
  explicit NormRows(const V& x)
      : data(x.template data<std::remove_const_t<T>>()),
        outer_stride(x.stride(0)),
        inner_stride(x.rank() == 2 ? 0 : x.stride(1)) {}
  __device__ T* operator[](const RowNumbers::Place& at) const {
    return data + at.outer * outer_stride + at.inner * inner_stride;
  }
  /// Whether every row begins where a pack can.
  bool packs() const {
    // A stride of 0 (no inner dimension) counts as aligned.
    constexpr int kWidth = kPackWidth<T>;
    return can_pack<kWidth>(data) && outer_stride % kWidth == 0 && inner_stride % kWidth == 0;
  }
  T* data;
  std::int64_t outer_stride, inner_stride;
};

// Weight and bias [C], in the type of the activations.
template <class T>
struct NormWeights {
  // Widened once on the host, so that the kernels do not convert scalars per thread.
  NormWeights(const ConstView& w_, const ConstView& b_, const NormSpec& spec)
      : w(w_.data<T>()),
        b(b_ ? b_.data<T>() : nullptr),
        n(w_.dim(0)),
        centred(spec.kind == NormKind::layer),
        offset(static_cast<Accumulator<T>>(spec.one_plus_weight ? 1 : 0)),
        epsilon(static_cast<Accumulator<T>>(spec.epsilon)) {}
  /// Whether rows consist of whole packs, and the weights are aligned for them.
  bool packs() const {
    constexpr int kWidth = kPackWidth<T>;
    return n % kWidth == 0 && can_pack<kWidth>(w) && (!b || can_pack<kWidth>(b));
  }
  const T* w;
  const T* b;  ///< null without bias
  std::int64_t n;
  bool centred;           ///< layer norm subtracts the mean, RMS norm does not
  Accumulator<T> offset;  ///< a channel is multiplied by w + offset
  Accumulator<T> epsilon;
};

}  // namespace tessera::cuda
