// NumPy's legacy shuffle, bit for bit: what RandomState(seed).shuffle does, with std::mt19937 as
// the generator (the two seed and draw alike).
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <utility>

namespace tessera {

/// Uniform in [0, max]: draws are masked to max's bits and refused when above it.
inline std::uint64_t numpy_interval(std::mt19937& generator, std::uint64_t max) {
  const std::uint64_t mask = ~std::uint64_t{0} >> std::countl_zero(max | 1);
  std::uint64_t value;
  do {
    value = generator();
    if (max > 0xffffffffu) value = value << 32 | generator();
    value &= mask;
  } while (value > max);
  return value;
}

/// Fisher-Yates from the end. Partners are drawn some swaps ahead, so that memory which no cache
/// holds is on its way when its turn comes.
template <class T>
void numpy_shuffle(std::span<T> values, std::mt19937& generator) {
  std::array<std::size_t, 64> partners;
  std::size_t i = values.size();
  while (i > 1) {
    const std::size_t count = std::min(partners.size(), i - 1);
    for (std::size_t k = 0; k < count; ++k) {
      partners[k] = numpy_interval(generator, i - 1 - k);
      __builtin_prefetch(&values[partners[k]], 1);
    }
    for (std::size_t k = 0; k < count; ++k) std::swap(values[i - 1 - k], values[partners[k]]);
    i -= count;
  }
}

/// Draws what a shuffle of `size` values draws, and shuffles nothing.
inline void skip_numpy_shuffle(std::size_t size, std::mt19937& generator) {
  for (std::size_t i = size; i-- > 1;) numpy_interval(generator, i);
}

}  // namespace tessera
