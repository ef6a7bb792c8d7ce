// y = x + dropout(branch) for the four channels that share one random counter; x may be null.
#pragma once

#include "tessera/kernels/cuda/math.cuh"
#include "tessera/kernels/dropout.h"
#include "tessera/kernels/specs.h"

namespace tessera::cuda {

/// A DropoutSpec as kernels read it.
template <class A>
struct HiddenDropout {
  explicit HiddenDropout(const DropoutSpec& spec)
      : on(spec.p > 0),
        bound(dropout_bound(spec.p)),
        scale(static_cast<A>(1.0 / (1.0 - spec.p))),
        key(spec.key),
        samples(on ? spec.samples.data<std::int64_t>() : nullptr),
        batch(on ? spec.samples.dim(0) : 1),
        position_start(spec.position_start) {}

  bool on;
  std::uint32_t bound;
  A scale;
  RngKey key;
  const std::int64_t* samples;
  std::int64_t batch;
  std::int64_t position_start;
};

/// y, x, branch: one row of n channels.
template <class T, class A = Accumulator<T>>
__device__ void add_dropout_block(T* y, const T* x, const T* branch, std::int64_t row,
                                  std::int64_t block, std::int64_t n,
                                  const HiddenDropout<A>& dropout) {
  Philox4 words{};
  if (dropout.on)
    words = hidden_dropout_words(dropout.key, dropout.samples[row % dropout.batch],
                                 dropout.position_start + row / dropout.batch, block);
  for (int i = 0; i < 4; ++i) {
    const std::int64_t j = 4 * block + i;
    if (j >= n) break;
    A kept = load(branch[j]);
    if (dropout.on) kept = words.v[i] >= dropout.bound ? kept * dropout.scale : A(0);
    store<T>(y[j], x ? load(x[j]) + kept : kept);
  }
}

}  // namespace tessera::cuda
