// y = x + dropout(branch) for one row of n channels; x may be null, which gives y =
// dropout(branch).
//
// An element is kept if its random word is at least p 2^32, and then scaled by 1 / (1 - p). The
// word is a function of the key and the element's global coordinates (sample, position, channel),
// so the mask is the same on every rank layout, and the backward regenerates it instead of storing
// it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "tessera/kernels/cpu/math.h"
#include "tessera/kernels/dropout.h"
#include "tessera/kernels/specs.h"

namespace tessera::cpu {

/// `row` is the index in [N, C] of this rank: row = s B + b. y may be x or branch: each element is
/// read before it is written. The sum is formed in A and rounded once.
template <class T>
void add_dropout_row(T* y, const T* x, const T* branch, std::int64_t row, std::int64_t n,
                     const DropoutSpec& spec) {
  using A = Accumulator<T>;
  const A scale = static_cast<A>(spec.scale / (1.0 - spec.p));
  if (spec.p <= 0) {
    if (x && spec.scale == 1) {
#pragma omp simd
      for (std::int64_t j = 0; j < n; ++j) store<T>(y[j], load(x[j]) + load(branch[j]));
    } else if (spec.scale != 1) {
      for (std::int64_t j = 0; j < n; ++j)
        store<T>(y[j], (x ? load(x[j]) : A(0)) + load(branch[j]) * scale);
    } else {
      for (std::int64_t j = 0; j < n; ++j) y[j] = branch[j];
    }
    return;
  }
  const std::int64_t batch = spec.samples.dim(0);
  const std::int64_t sample = spec.samples.data<std::int64_t>()[row % batch];
  const std::int64_t position = spec.ranges.at(row / batch);
  const std::uint32_t bound = dropout_bound(spec.p);
  const std::int64_t first = spec.channel_start;
  // One Philox call serves four channels. The channels of this rank may begin or end within such a
  // group of four; the words of the other channels are then unused.
  for (std::int64_t block = first / 4; 4 * block < first + n; ++block) {
    const Philox4 words = hidden_dropout_words(spec.key, sample, position, block);
    const std::int64_t end = std::min(first + n, 4 * block + 4);
    for (std::int64_t channel = std::max(first, 4 * block); channel < end; ++channel) {
      const std::int64_t j = channel - first;
      const A kept = words.v[channel - 4 * block] >= bound ? load(branch[j]) * scale : A(0);
      store<T>(y[j], x ? load(x[j]) + kept : kept);
    }
  }
}

}  // namespace tessera::cpu
