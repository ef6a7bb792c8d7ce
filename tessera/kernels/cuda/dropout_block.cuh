// sum = x + dropout(branch) for one row of hidden activations, chunk by chunk; x may be null. Used
// by add_dropout and by the norm that is fused with it. Masks come from Philox with the coordinates
// (sample, position, channel / 4): four neighbouring channels share one draw.
#pragma once

#include "tessera/kernels/cuda/chunks.cuh"
#include "tessera/kernels/dropout.h"
#include "tessera/kernels/specs.h"

namespace tessera::cuda {

/// A DropoutSpec as kernel parameters. An element is kept if its word is at least `bound`, and is
/// then multiplied by scale = 1 / (1 - p).
template <class A>
struct HiddenDropout {
  // Dropout that is off needs no samples: their view may be empty.
  explicit HiddenDropout(const DropoutSpec& spec)
      : on(spec.p > 0),
        bound(dropout_bound(spec.p)),
        scale(static_cast<A>(spec.scale / (1.0 - spec.p))),
        key(spec.key),
        samples(on ? spec.samples.data<std::int64_t>() : nullptr),
        batch(on ? spec.samples.dim(0) : 1),
        ranges(spec.ranges),
        channel_start(spec.channel_start) {}

  bool on;
  std::uint32_t bound;
  A scale;
  RngKey key;
  const std::int64_t* samples;
  std::int64_t batch;
  SequenceRanges ranges;
  std::int64_t channel_start;
};

/// One row as a source of chunks (read, write, again). kPart: the row begins with any channel
/// (channel_start), not with channel 0.
template <class T, bool kPart = false>
class AddedRow {
 public:
  using A = Accumulator<T>;
  static constexpr int kWidth = kPackWidth<T>;
  using Chunk = Pack<T, kWidth>;
  // Inputs of a chunk that are in flight between read() and write().
  struct Parts {
    Chunk x, branch;
  };

  /// sum, x and branch point to the first channel of row number `row` = sequence index * batch +
  /// sample.
  __device__ AddedRow(T* sum, const T* x, const T* branch, std::int64_t row,
                      const HiddenDropout<A>& dropout)
      // Rows are numbered [sequence, batch]; `ranges` maps the local sequence index to the global
      // position.
      : sum_(sum), x_(x), branch_(branch), dropout_(dropout) {
    if (!dropout.on) return;
    sample_ = dropout.samples[row % dropout.batch];
    position_ = dropout.ranges.at(row / dropout.batch);
  }

  // Starts the loads of a chunk.
  template <bool kPacked>
  __device__ Parts read(std::int64_t at, std::int64_t n) const {
    Parts parts;
    parts.branch = load_chunk<kPacked, kWidth>(branch_, at, n);
    if (x_) parts.x = load_chunk<kPacked, kWidth>(x_, at, n);
    return parts;
  }
  /// Computes and stores a chunk, and returns what was stored, rounded to T.
  template <bool kPacked>
  __device__ Chunk write(std::int64_t at, std::int64_t n, const Parts& parts) const {
    auto value = widened(parts.branch);
    // Undefined without x, and not used then.
    const auto residual = widened(parts.x);
    // Without dropout the branch may still have a scale (spec.scale, for a residual multiplier).
    if (dropout_.on)
      drop(value, at);
    else if (dropout_.scale != A(1))
#pragma unroll
      for (int k = 0; k < kWidth; ++k) value.at[k] = scaled(value.at[k], dropout_.scale);
    // The residual is added in the accumulator type; the sum is rounded once.
    if (x_)
#pragma unroll
      for (int k = 0; k < kWidth; ++k) value.at[k] += residual.at[k];
    const Chunk result = rounded<T>(value);
    store_chunk<kPacked>(sum_, at, n, result);
    return result;
  }
  /// Re-reads a chunk that write() stored.
  template <bool kPacked>
  __device__ Chunk again(std::int64_t at, std::int64_t n) const {
    return load_chunk<kPacked, kWidth>(sum_, at, n);
  }

 private:
  // The product is rounded before it is added to x (no fma), in every kernel alike, so that they
  // compute equal bits.
  __device__ static float scaled(float x, float scale) { return __fmul_rn(x, scale); }
  __device__ static double scaled(double x, double scale) { return __dmul_rn(x, scale); }

  // Applies dropout to a chunk with one draw per four channels. f64 chunks hold two channels: the
  // upper half of a draw if they start at an odd multiple of two.
  __device__ void drop(Pack<A, kWidth>& value, std::int64_t at) const {
    // Chunks of part rows may start between the groups of four channels that share a draw.
    if constexpr (kPart) {
      at += dropout_.channel_start;
      if (dropout_.channel_start % 4 != 0) return drop_each(value, at);
    }
    constexpr int kShared = kWidth < 4 ? kWidth : 4;  // elements of one counter in this chunk
#pragma unroll
    for (int first = 0; first < kWidth; first += kShared) {
      // The counter is the global channel / 4, so shards and chunks of any width draw the same
      // words.
      const Philox4 words =
          hidden_dropout_words(dropout_.key, sample_, position_, (at + first) / 4);
      // Only f64 (two elements to a chunk) uses half of a draw.
      const bool upper = kShared < 4 && at % 4 != 0;
#pragma unroll
      for (int k = 0; k < kShared; ++k) {
        A& each = value.at[first + k];
        const std::uint32_t word = upper ? words.v[(k + kShared) % 4] : words.v[k];
        each = word >= dropout_.bound ? scaled(each, dropout_.scale) : A(0);
      }
    }
  }

  // For channels that do not start at a multiple of four: one draw per element, four times the work
  // of drop(). Only shards of the channels with such an offset come here.
  __device__ void drop_each(Pack<A, kWidth>& value, std::int64_t at) const {
#pragma unroll
    for (int k = 0; k < kWidth; ++k) {
      const Philox4 words = hidden_dropout_words(dropout_.key, sample_, position_, (at + k) / 4);
      const int place = static_cast<int>((at + k) % 4);
      // Selected by comparisons: a run-time index would move the words to local memory.
      const std::uint32_t low = place == 0 ? words.v[0] : words.v[1];
      const std::uint32_t high = place == 2 ? words.v[2] : words.v[3];
      const std::uint32_t word = place < 2 ? low : high;
      value.at[k] = word >= dropout_.bound ? scaled(value.at[k], dropout_.scale) : A(0);
    }
  }

  T* sum_;
  const T* x_;
  const T* branch_;
  const HiddenDropout<A>& dropout_;
  std::int64_t sample_ = 0;
  std::int64_t position_ = 0;
};

}  // namespace tessera::cuda
