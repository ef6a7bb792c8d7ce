// Random weights: every box of a global tensor holds the bits of the whole, and the values are
// normal.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/support/kernel_test.h"

namespace tessera::test {
namespace {

class RandomNormalTest : public KernelTest {
 protected:
  Values draw(const Shape& global, const Shape& offset, const Shape& box, RngKey key = 11,
              double mean = 0, double std = 1) {
    const Tensor x = empty(box);
    lab->random_normal(stream, x, key, global, offset, mean, std);
    return lab.read(x);
  }
};

TEST_P(RandomNormalTest, ABoxHoldsTheBitsOfTheWhole) {
  const Shape global{13, 29};
  const Values whole = draw(global, {0, 0}, global);
  for (const Shape& offset : {Shape{0, 0}, Shape{3, 5}, Shape{12, 28}, Shape{1, 2}})
    for (const Shape& box : {Shape{1, 1}, Shape{1, 24}, Shape{10, 3}}) {
      if (offset[0] + box[0] > 13 || offset[1] + box[1] > 29) continue;
      const Values part = draw(global, offset, box);
      for (std::int64_t i = 0; i < box[0]; ++i)
        for (std::int64_t j = 0; j < box[1]; ++j)
          ASSERT_EQ(part[static_cast<std::size_t>(i * box[1] + j)],
                    whole[static_cast<std::size_t>((offset[0] + i) * 29 + offset[1] + j)]);
    }
}

TEST_P(RandomNormalTest, AVectorIsTheSameAsAMatrixOfOneRow) {
  EXPECT_EQ(draw({100}, {17}, {40}), draw({1, 100}, {0, 17}, {1, 40}));
}

TEST_P(RandomNormalTest, ABoxMayBeStrided) {
  const Padded x = padded({4, 6});
  lab->random_normal(stream, x, 11, {4, 6}, {0, 0}, 0, 1);
  EXPECT_EQ(lab.read(x.view), draw({4, 6}, {0, 0}, {4, 6}));
  expect_gaps_untouched(x);
}

TEST_P(RandomNormalTest, EachElementIsItsIndexThroughTheQuantileFunction) {
  const Values got = draw({5, 7}, {2, 3}, {2, 4}, 99, 0.5, 0.02);
  for (std::uint64_t i = 0; i < 2; ++i)
    for (std::uint64_t j = 0; j < 4; ++j) {
      const std::uint32_t word = philox_word(99, (2 + i) * 7 + 3 + j);
      const double exact = std::fma(0.02, normal_from_uniform(uniform_from_word(word)), 0.5);
      EXPECT_EQ(got[i * 4 + j], rounded(dtype(), exact));
    }
}

TEST_P(RandomNormalTest, GlobalTensorsBeyond32Bits) {
  const std::int64_t columns = std::int64_t{1} << 20;
  const Values far = draw({std::int64_t{1} << 16, columns}, {50'000, 4}, {1, 4});
  for (std::uint64_t j = 0; j < 4; ++j) {
    const std::uint32_t word =
        philox_word(11, 50'000 * static_cast<std::uint64_t>(columns) + 4 + j);
    EXPECT_EQ(far[j], rounded(dtype(), normal_from_uniform(uniform_from_word(word))));
  }
}

TEST_P(RandomNormalTest, ValuesAreNormal) {
  const std::int64_t n = 100'000;
  Values x = draw({n}, {0}, {n}, 12);
  double mean = 0;
  double square = 0;
  for (const double each : x) {
    mean += each / static_cast<double>(n);
    square += each * each / static_cast<double>(n);
  }
  const double deviation = 1 / std::sqrt(static_cast<double>(n));
  EXPECT_NEAR(mean, 0, 5 * deviation);
  EXPECT_NEAR(square, 1, 5 * std::sqrt(2.0) * deviation);
  std::sort(x.begin(), x.end());
  for (const double p : {0.001, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999}) {
    const double quantile = normal_from_uniform(p);
    const double density = std::exp(-quantile * quantile / 2) / std::sqrt(2 * M_PI);
    const double spread = std::sqrt(p * (1 - p)) * deviation / density;
    const double rounding = std::fabs(quantile) * tolerance(2);
    EXPECT_NEAR(x[static_cast<std::size_t>(p * static_cast<double>(n))], quantile,
                5 * spread + rounding)
        << p;
  }
}

TESSERA_KERNEL_SUITE(RandomNormalTest);

}  // namespace
}  // namespace tessera::test
