// The arguments of all attention kernels: which keys a query sees, which probabilities are dropped,
// and where the heads lie in memory.
//
// Symbols: S queries, T keys, B samples, H query heads, K key/value heads, d and e the head sizes
// of q and k, and of v and o. Tensors are [rows, B, heads, channels]; only the channels must be
// contiguous.
#pragma once

#include <cstdint>
#include <type_traits>

#include "tessera/kernels/cuda/math.cuh"
#include "tessera/kernels/dropout.h"
#include "tessera/kernels/specs.h"

namespace tessera::cuda {

// A half-open range [begin, end).
struct Span {
  std::int64_t begin, end;
  __device__ bool holds(std::int64_t i) const { return i >= begin && i < end; }
};

/// Which keys a query of sample b sees, as local indices: query i stands at position q_start + i,
/// key j at kv_start + j. A key is visible if it is in the query's document, not after it (causal),
/// less than `window` positions before it (window > 0), and in its chunk (chunk > 0).
///
/// Each of these conditions leaves one contiguous span, of keys for a query and of queries for a
/// key. Kernels therefore loop over spans and never read a mask tensor.
struct Visibility {
  // Everything by value: the struct is a kernel parameter and is read from constant memory.
  Visibility(std::int64_t q, std::int64_t k, const AttentionSpec& spec)
      : queries(q),
        keys(k),
        q_start(spec.q_start),
        kv_start(spec.kv_start),
        window(spec.window),
        chunk(spec.chunk),
        causal(spec.causal),
        documents(spec.documents ? spec.documents.data<std::int32_t>() : nullptr),
        starts(documents ? spec.documents.dim(1) : 0) {}

  /// The keys that a query sees; an empty span if there are none.
  __device__ Span keys_of(std::int64_t b, std::int64_t query) const {
    const std::int64_t position = q_start + query;
    Span span = document_at(b, position, {kv_start, kv_start + keys});
    if (causal) span.end = min(span.end, position + 1);
    if (window > 0) span.begin = max(span.begin, position - window + 1);
    return local(chunk_at(b, position, span), kv_start, keys);
  }
  /// The queries that see a key: the same conditions solved for the query.
  __device__ Span queries_of(std::int64_t b, std::int64_t key) const {
    const std::int64_t position = kv_start + key;
    Span span = document_at(b, position, {q_start, q_start + queries});
    if (causal) span.begin = max(span.begin, position);
    // Written without position + window, which could overflow for a window without limit.
    if (window > 0 && window < span.end - position) span.end = position + window;
    return local(chunk_at(b, position, span), q_start, queries);
  }

  // The union over neighbouring rows. Both ends of a span are monotone in the position, so it
  // reaches from the first row's begin to the last row's end. `rows` must not be empty.
  __device__ Span keys_of(std::int64_t b, Span rows) const {
    return {keys_of(b, rows.begin).begin, keys_of(b, rows.end - 1).end};
  }
  __device__ Span queries_of(std::int64_t b, Span rows) const {
    return {queries_of(b, rows.begin).begin, queries_of(b, rows.end - 1).end};
  }

  std::int64_t queries, keys, q_start, kv_start, window, chunk;
  bool causal;
  const std::int32_t* documents;  ///< [B, starts]
  std::int64_t starts;

 private:
  // The number of documents that begin at or before a position. They are given by the positions
  // where they begin, in rising order, which a binary search goes through; without documents there
  // are none.
  __device__ std::int64_t begun_at(std::int64_t b, std::int64_t position) const {
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
    return low;
  }
  // Restricts `span` to the document of a position: from the last start at or before it to the next
  // one.
  __device__ Span document_at(std::int64_t b, std::int64_t position, Span span) const {
    const std::int32_t* const start = documents + b * starts;
    const std::int64_t low = begun_at(b, position);
    // Before the first start (low = 0) and after the last one the span is not cut on that side.
    if (low > 0) span.begin = max(span.begin, std::int64_t{start[low - 1]});
    if (low < starts) span.end = min(span.end, std::int64_t{start[low]});
    return span;
  }
  // Restricts `span` to the chunk of a position. The first chunk begins with the document.
  __device__ Span chunk_at(std::int64_t b, std::int64_t position, Span span) const {
    if (chunk == 0) return span;
    const std::int64_t low = begun_at(b, position);
    const std::int64_t document = low > 0 ? documents[b * starts + low - 1] : 0;
    const std::int64_t first = position - (position - document) % chunk;
    return {max(span.begin, first), min(span.end, first + chunk)};
  }
  // Positions to local indices, clamped to [0, count]; begin <= end even if the span is empty.
  static __device__ Span local(Span span, std::int64_t start, std::int64_t count) {
    const std::int64_t begin = min(max(span.begin - start, std::int64_t{0}), count);
    return {begin, min(max(span.end - start, begin), count)};
  }
};

/// Dropout of probabilities. An element is kept if its random word is at least `bound`, which has
/// probability 1 - p, and is then multiplied by 1 / (1 - p).
///
/// Words come from the counter-based Philox generator with the global coordinates (sample, head,
/// query, key) as the counter. Forward and backward, every kernel and every parallel layout thus
/// agree on the mask without storing it.
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

  /// The factor M of a (local) key for a (local) query. Draws four words and uses one.
  __device__ A factor(std::int64_t b, std::int64_t head, std::int64_t query,
                      std::int64_t at) const {
    if (!on) return A(1);
    const std::int64_t position = kv_start + at;
    const Philox4 words =
        attention_dropout_words(key, samples[b], head_start + head, q_start + query, position / 4);
    return words.v[position % 4] >= bound ? scale : A(0);
  }
  /// The factors of four neighbouring keys, the first at a position that is a multiple of four: one
  /// draw serves all of them.
  __device__ void factors(A (&to)[4], std::int64_t sample, std::int64_t head, std::int64_t query,
                          std::int64_t at) const {
    const Philox4 words = attention_dropout_words(key, sample, head_start + head, q_start + query,
                                                  (kv_start + at) / 4);
    // The words are in the order of the keys; a word below the bound drops its key.
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

/// Heads of a tensor [rows, B, heads, D]: any strides, but contiguous channels.
template <class T>
struct Heads {
  T* data;
  std::int64_t row_stride, b_stride, head_stride;
  __device__ T* row(std::int64_t i, std::int64_t b, std::int64_t h) const {
    return data + i * row_stride + b * b_stride + h * head_stride;
  }
};

/// From a View (T mutable) or a ConstView (T const).
template <class T, class V>
Heads<T> heads_of(const V& x) {
  return {x.template data<std::remove_const_t<T>>(), x.stride(0), x.stride(1), x.stride(2)};
}

/// The arguments that all attention kernels have, passed by value as kernel parameters.
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
        // Query heads that share a key/value head: 1 for multi-head attention, heads for
        // multi-query.
        group(queries.dim(2) / keys.dim(2)),
        d(static_cast<int>(queries.dim(3))),
        e(static_cast<int>(values.dim(3))),
        scale(static_cast<A>(spec.scale)),
        softcap(static_cast<A>(spec.softcap)),
        seen(queries.dim(0), keys.dim(0), spec),
        dropout(spec) {}

  /// The score as the softmax takes it: softcap * tanh(score / softcap), or the scaled score
  /// itself.
  __device__ A capped(A score) const {
    return softcap > 0 ? softcap * tanh(score / softcap) : score;
  }
  /// The derivative of that by the scaled score, from the capped score c: 1 - tanh^2 = 1 - (c /
  /// softcap)^2.
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

/// What the backward passes read besides q, k and v: o and d_o [S, B, H, e], lse and delta acc [B,
/// H, S].
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
