// Values for tests: repeatable random ones, and how far two sets of them are apart.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "tessera/base/rng.h"
#include "tests/support/tensors.h"

namespace tessera::test {

/// n values with mean 0 and variance scale^2, bell-shaped (each the sum of four uniform ones); the
/// same for the same seed, on every machine.
inline Values random_values(std::int64_t n, std::uint64_t seed, double scale = 1.0) {
  Values values(static_cast<std::size_t>(n));
  const RngKey key = rng_key(seed, RngPurpose::test, "values");
  const double width = scale * std::sqrt(3.0);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Philox4 words = philox(key, {{static_cast<std::uint32_t>(i), 0, 0, 0}});
    double sum = -2;
    for (const std::uint32_t word : words.v) sum += uniform_from_word(word);
    values[i] = width * sum;
  }
  return values;
}

/// n whole numbers in [0, end).
inline Values random_indices(std::int64_t n, std::uint64_t seed, std::int64_t end) {
  Values values(static_cast<std::size_t>(n));
  const RngKey key = rng_key(seed, RngPurpose::test, "indices");
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = std::floor(uniform_from_word(philox_word(key, i)) * static_cast<double>(end));
  return values;
}

inline double norm_of(const Values& x) {
  double squares = 0;
  for (const double each : x) squares += each * each;
  return std::sqrt(squares);
}

/// |a - b| / max(|b|, floor) over all elements. Infinities in b must be met exactly. The floor is
/// for results that are zero but for rounding: the size of what cancelled.
inline double relative_error(const Values& a, Values b, double floor = 1e-30) {
  EXPECT_EQ(a.size(), b.size());
  Values difference(b.size());
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    difference[i] = std::isinf(b[i]) && a[i] == b[i] ? 0.0 : a[i] - b[i];
    if (std::isinf(b[i])) b[i] = 0;
  }
  return norm_of(difference) / std::max(norm_of(b), floor);
}

inline void expect_close(const Values& got, const Values& expected, double tolerance,
                         const char* what = "") {
  EXPECT_LE(relative_error(got, expected), tolerance) << what;
}

}  // namespace tessera::test
