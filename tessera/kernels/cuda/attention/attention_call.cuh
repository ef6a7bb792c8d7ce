// What every attention kernel is told: who sees whom, which probabilities are dropped, and where
// the heads lie.
#pragma once

#include <cstdint>
#include <type_traits>

#include "tessera/kernels/cuda/math.cuh"
#include "tessera/kernels/dropout.h"
#include "tessera/kernels/specs.h"

namespace tessera::cuda {

struct Span {
  std::int64_t begin, end;
  __device__ bool holds(std::int64_t i) const { return i >= begin && i < end; }
};

/// Who sees whom in a sample b, as local indices. Causality, windows and documents all leave
/// contiguous spans, in both directions.
struct Visibility {
  Visibility(std::int64_t q, std::int64_t k, const AttentionSpec& spec)
      : queries(q),
        keys(k),
        q_start(spec.q_start),
        kv_start(spec.kv_start),
        window(spec.window),
        causal(spec.causal),
        documents(spec.documents ? spec.documents.data<std::int32_t>() : nullptr),
        starts(documents ? spec.documents.dim(1) : 0) {}

  /// The keys that a query sees.
  __device__ Span keys_of(std::int64_t b, std::int64_t query) const {
    const std::int64_t position = q_start + query;
    Span span = document_at(b, position, {kv_start, kv_start + keys});
    if (causal) span.end = min(span.end, position + 1);
    if (window > 0) span.begin = max(span.begin, position - window + 1);
    return local(span, kv_start, keys);
  }
  /// The queries that see a key.
  __device__ Span queries_of(std::int64_t b, std::int64_t key) const {
    const std::int64_t position = kv_start + key;
    Span span = document_at(b, position, {q_start, q_start + queries});
    if (causal) span.begin = max(span.begin, position);
    if (window > 0 && window < span.end - position) span.end = position + window;
    return local(span, q_start, queries);
  }

  // Both ends of a span only ever grow with the position that it belongs to, so neighbours see what
  // lies between the first one's begin and the last one's end.
  __device__ Span keys_of(std::int64_t b, Span rows) const {
    return {keys_of(b, rows.begin).begin, keys_of(b, rows.end - 1).end};
  }
  __device__ Span queries_of(std::int64_t b, Span rows) const {
    return {queries_of(b, rows.begin).begin, queries_of(b, rows.end - 1).end};
  }

  std::int64_t queries, keys, q_start, kv_start, window;
  bool causal;
  const std::int32_t* documents;  ///< [B, starts]
  std::int64_t starts;

 private:
  // The part of `span` in the document of a position: between the starts around it.
  __device__ Span document_at(std::int64_t b, std::int64_t position, Span span) const {
    const std::int32_t* const start = documents + b * starts;
    std::int64_t low = 0;  // becomes the first start after the position
    std::int64_t high = starts;
    while (low < high) {
      const std::int64_t middle = (low + high) / 2;
      if (start[middle] <= position)
        low = middle + 1;
      else
        high = middle;
    }
    if (low > 0) span.begin = max(span.begin, std::int64_t{start[low - 1]});
    if (low < starts) span.end = min(span.end, std::int64_t{start[low]});
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
  /// The same for four neighbouring keys, the first at a position that four divides: one draw.
  __device__ void factors(A (&to)[4], std::int64_t sample, std::int64_t head, std::int64_t query,
                          std::int64_t at) const {
    const Philox4 words = attention_dropout_words(key, sample, head_start + head, q_start + query,
                                                  (kv_start + at) / 4);
#pragma unroll
    for (int i = 0; i < 4; ++i) to[i] = words.v[i] >= bound ? scale : A(0);
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

/// The arguments that all attention kernels have.
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
        e(static_cast<int>(values.dim(3))),
        scale(static_cast<A>(spec.scale)),
        softcap(static_cast<A>(spec.softcap)),
        seen(queries.dim(0), keys.dim(0), spec),
        dropout(spec) {}

  /// A scaled score as the softmax takes it.
  __device__ A capped(A score) const {
    return softcap > 0 ? softcap * tanh(score / softcap) : score;
  }
  /// The derivative of that, from what it gave.
  __device__ A cap_slope(A score) const {
    const A bent = softcap > 0 ? score / softcap : A(0);
    return A(1) - bent * bent;
  }

  Heads<const T> q, k, v;
  std::int64_t batch, heads, group;  ///< group: query heads per key/value head
  int d, e;                          ///< head sizes of queries and keys, and of values
  A scale, softcap;                  ///< softcap 0: none
  Visibility seen;
  ProbabilityDropout<A> dropout;
};

/// Calls f(TypeTag<G>) for the type of a gradient: T or its accumulator.
template <class T, class F>
void dispatch_gradient(const ConstView& d, F&& f) {
  if (d.dtype() == dtype_of<T>())
    f(TypeTag<T>{});
  else if constexpr (!std::is_same_v<T, Accumulator<T>>)
    f(TypeTag<Accumulator<T>>{});
}

/// What the backward passes read besides q, k and v. lse, delta: acc [B, H, S].
template <class T>
struct Upstream {
  Heads<const T> o, d_o;
  const Accumulator<T>* lse;
  Accumulator<T>* delta;  ///< written by the first pass, read by the second
};

template <class T>
Upstream<T> upstream_of(const ConstView& d_o, const ConstView& o, const ConstView& lse,
                        const Workspace& delta) {
  using A = Accumulator<T>;
  return {heads_of<const T>(o), heads_of<const T>(d_o), lse.data<A>(),
          static_cast<A*>(delta.raw())};
}

}  // namespace tessera::cuda
