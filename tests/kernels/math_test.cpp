// How accurate the float functions are, over the whole range they are used in.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tessera/kernels/cpu/math.h"
#include "tests/support/kernel_test.h"
#include "tests/support/reference_ops.h"

namespace tessera::test {
namespace {

constexpr float kFloatInfinity = std::numeric_limits<float>::infinity();
constexpr float kFloatNan = std::numeric_limits<float>::quiet_NaN();

// Every 1999th float from `low` to `high`, both ends included.
template <class F>
void for_floats(float low, float high, F&& f) {
  constexpr int kSkip = 1999;
  const auto walk = [&](std::uint32_t from, std::uint32_t to) {
    for (std::uint32_t bits = from; bits < to; bits += kSkip) f(detail::float_from_bits(bits));
    f(detail::float_from_bits(to));
  };
  if (low < 0) walk(0x80000000u, detail::float_bits(low));
  if (high > 0) walk(0, detail::float_bits(high));
}

TEST(CpuMath, ExpIsWithinTwoRoundings) {
  double worst = 0;
  for_floats(-87.33f, 88.72283f, [&](float x) {
    const double exact = std::exp(static_cast<double>(x));
    worst = std::max(worst, std::fabs(static_cast<double>(cpu::exp_of(x)) / exact - 1));
  });
  EXPECT_LE(worst, 1.2e-7);
}

TEST(CpuMath, ExpAtItsEnds) {
  EXPECT_EQ(cpu::exp_of(0.0f), 1.0f);
  EXPECT_EQ(cpu::exp_of(-0.0f), 1.0f);
  EXPECT_EQ(cpu::exp_of(-87.4f), 0.0f);
  EXPECT_EQ(cpu::exp_of(-1e30f), 0.0f);
  EXPECT_EQ(cpu::exp_of(-kFloatInfinity), 0.0f);
  EXPECT_EQ(cpu::exp_of(88.73f), kFloatInfinity);
  EXPECT_EQ(cpu::exp_of(std::numeric_limits<float>::max()), kFloatInfinity);
  EXPECT_EQ(cpu::exp_of(kFloatInfinity), kFloatInfinity);
  EXPECT_TRUE(std::isnan(cpu::exp_of(kFloatNan)));
  EXPECT_TRUE(std::isnan(cpu::exp_of(-kFloatNan)));
}

TEST(CpuMath, TanhIsWithinAFewRoundings) {
  double worst = 0;
  for_floats(-30.0f, 30.0f, [&](float x) {
    if (std::fabs(x) < 1e-37f) return;  // below, the result has fewer digits
    const double exact = std::tanh(static_cast<double>(x));
    worst = std::max(worst, std::fabs(static_cast<double>(cpu::tanh_of(x)) / exact - 1));
  });
  EXPECT_LE(worst, 3e-7);  // e^2x and three roundings, just above where the polynomial ends
  EXPECT_EQ(cpu::tanh_of(kFloatInfinity), 1.0f);
  EXPECT_EQ(cpu::tanh_of(-kFloatInfinity), -1.0f);
  EXPECT_EQ(cpu::tanh_of(0.0f), 0.0f);
  EXPECT_TRUE(std::isnan(cpu::tanh_of(kFloatNan)));
}

TEST(CpuMath, SigmoidIsAccurateInBothTails) {
  double worst = 0;
  for_floats(-87.0f, 100.0f, [&](float x) {
    const double exact = reference::sigmoid(static_cast<double>(x));
    worst = std::max(worst, std::fabs(static_cast<double>(cpu::Math::sigmoid(x)) / exact - 1));
  });
  EXPECT_LE(worst, 2.5e-7);
  EXPECT_EQ(cpu::Math::sigmoid(-kFloatInfinity), 0.0f);
  EXPECT_EQ(cpu::Math::sigmoid(kFloatInfinity), 1.0f);
  EXPECT_TRUE(std::isnan(cpu::Math::sigmoid(kFloatNan)));
}

// tanh itself would lose all digits of the left tail; the gate's error is that of its exponent.
TEST(CpuMath, GeluIsAccurateInBothTails) {
  double worst = 0;
  double worst_slope = 0;
  for_floats(-5.0f, 20.0f, [&](float x) {
    const double at = static_cast<double>(x);
    // 1 + tanh(u) = 2 / (1 + exp(-2u)), which double needs in the tail too.
    const double exact =
        at * reference::sigmoid(2 * std::sqrt(2 / M_PI) * (at + 0.044715 * at * at * at));
    if (std::fabs(at) > 1e-37)  // below, the result has fewer digits
      worst = std::max(worst, std::fabs(static_cast<double>(cpu::Math::gelu(x)) / exact - 1));
    worst_slope = std::max(worst_slope, std::fabs(static_cast<double>(cpu::Math::gelu_slope(x)) -
                                                  reference::gelu_slope(at)));
  });
  EXPECT_LE(worst, 3e-6);
  EXPECT_LE(worst_slope, 4e-7);
}

TEST(CpuMath, GeluFarOutIsZeroOrTheInput) {
  for (const float x : {-15.0f, -1e4f, -1e10f, -std::numeric_limits<float>::max()}) {
    EXPECT_EQ(cpu::Math::gelu(x), 0.0f) << x;
  }
  for (const float x : {15.0f, 1e4f, 1e10f, std::numeric_limits<float>::max()}) {
    EXPECT_EQ(cpu::Math::gelu(x), x);
  }
  for (const float x : {-1e10f, -15.0f}) EXPECT_EQ(cpu::Math::gelu_slope(x), 0.0f) << x;
  for (const float x : {15.0f, 1e10f}) EXPECT_EQ(cpu::Math::gelu_slope(x), 1.0f) << x;
  EXPECT_EQ(cpu::Math::gelu(kFloatInfinity), kFloatInfinity);
  EXPECT_TRUE(std::isnan(cpu::Math::gelu(kFloatNan)));
  EXPECT_TRUE(std::isnan(cpu::Math::gelu_slope(kFloatNan)));
}

}  // namespace
}  // namespace tessera::test
