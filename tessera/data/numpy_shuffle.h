// NumPy's legacy shuffle, bit for bit: what RandomState(seed).shuffle does, with std::mt19937 as
// the generator (the two seed and draw alike).
#pragma once

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

/// Fisher-Yates from the end.
template <class T>
void numpy_shuffle(std::span<T> values, std::mt19937& generator) {
  for (std::size_t i = values.size(); i-- > 1;)
    std::swap(values[i], values[numpy_interval(generator, i)]);
}

}  // namespace tessera
