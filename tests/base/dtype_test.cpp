// Element types: names, sizes, and the 16-bit conversions against a plain reference that rounds by
// exact arithmetic in double.
#include "tessera/base/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/expect_error.h"

namespace tessera {
namespace {

// A binary format by its numbers alone.
struct Format {
  int mantissa_bits;
  int least_exponent;  // of a normal number
  double largest;
};
constexpr Format kF16{10, -14, 65504.0};
constexpr Format kBf16{7, -126, 3.3895313892515355e38};

// Rounds to nearest, ties to even: nearbyint of the value in units of the last place, both exact.
double round_to(const Format& format, double x) {
  if (x == 0 || !std::isfinite(x)) return x;
  const int exponent = std::max(std::ilogb(x), format.least_exponent);
  const double unit = std::ldexp(1.0, exponent - format.mantissa_bits);
  const double rounded = std::nearbyint(x / unit) * unit;
  if (std::fabs(rounded) <= format.largest) return rounded;
  return std::copysign(std::numeric_limits<double>::infinity(), x);
}

template <class T>
void expect_rounding(const Format& format, float x) {
  const float got = static_cast<float>(T(x));
  const double expected = round_to(format, static_cast<double>(x));
  ASSERT_EQ(static_cast<double>(got), expected) << "from " << x;
  ASSERT_EQ(std::signbit(got), std::signbit(x)) << "from " << x;
}

template <class T>
T from_bits(unsigned bits) {
  T x;
  x.bits = static_cast<std::uint16_t>(bits);
  return x;
}

template <class T>
void expect_round_trip(unsigned exponent_mask) {
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const auto value = static_cast<float>(from_bits<T>(bits));
    const bool nan = (bits & 0x7fffu) > exponent_mask;
    ASSERT_EQ(std::isnan(value), nan) << bits;
    if (nan)
      ASSERT_TRUE(std::isnan(static_cast<float>(T(value)))) << bits;
    else
      ASSERT_EQ(T(value).bits, bits);
  }
}

// Around every 16-bit value: the value, its neighbours in float, and the tie to the next one.
template <class T>
void expect_rounding_around_all(const Format& format, unsigned infinity) {
  const float ends = std::numeric_limits<float>::infinity();
  for (unsigned bits = 0; bits < infinity; ++bits) {
    const auto value = static_cast<float>(from_bits<T>(bits));
    const auto next = static_cast<float>(from_bits<T>(bits + 1));
    const auto tie = static_cast<float>(
        std::isfinite(next) ? (static_cast<double>(value) + static_cast<double>(next)) / 2 : value);
    for (const float middle : {value, tie})
      for (const float x :
           {middle, std::nextafter(middle, 0.0f), std::nextafter(middle, ends), -middle})
        expect_rounding<T>(format, x);
  }
}

TEST(DType, NamesAndSizes) {
  for (const DType type :
       {DType::f64, DType::f32, DType::bf16, DType::f16, DType::i64, DType::i32, DType::u8})
    EXPECT_EQ(dtype_from_name(to_string(type)), type);
  EXPECT_EQ(element_size(DType::f64), 8u);
  EXPECT_EQ(element_size(DType::f32), 4u);
  EXPECT_EQ(element_size(DType::bf16), 2u);
  EXPECT_EQ(element_size(DType::f16), 2u);
  EXPECT_EQ(element_size(DType::i64), 8u);
  EXPECT_EQ(element_size(DType::i32), 4u);
  EXPECT_EQ(element_size(DType::u8), 1u);
  test::expect_input_error([] { dtype_from_name("fp32"); }, {"fp32", "f32", "bf16"});
}

TEST(DType, FloatsAndTheirAccumulators) {
  EXPECT_TRUE(is_float(DType::f16));
  EXPECT_FALSE(is_float(DType::i64));
  EXPECT_EQ(accumulator_type(DType::f64), DType::f64);
  EXPECT_EQ(accumulator_type(DType::bf16), DType::f32);
}

TEST(DType, DispatchGivesTheTypeOrNamesTheOp) {
  const auto size = [](auto tag) { return sizeof(typename decltype(tag)::type); };
  EXPECT_EQ(dispatch_float(DType::f64, "op", size), 8u);
  EXPECT_EQ(dispatch_float(DType::bf16, "op", size), 2u);
  test::expect_error([&] { dispatch_float(DType::i32, "some_op", size); }, {"some_op", "i32"});
}

TEST(Float16, EveryPatternRoundTrips) { expect_round_trip<Float16>(0x7c00); }
TEST(BFloat16, EveryPatternRoundTrips) { expect_round_trip<BFloat16>(0x7f80); }

TEST(Float16, RoundsToNearestEvenAroundEveryValue) {
  expect_rounding_around_all<Float16>(kF16, 0x7c00);
}
TEST(BFloat16, RoundsToNearestEvenAroundEveryValue) {
  expect_rounding_around_all<BFloat16>(kBf16, 0x7f80);
}

TEST(Float16, OverflowStartsAtTheTieAboveTheLargest) {
  EXPECT_EQ(Float16(65519.996f).bits, 0x7bff);
  EXPECT_EQ(Float16(65520.0f).bits, 0x7c00);
  EXPECT_EQ(Float16(-65520.0f).bits, 0xfc00);
  EXPECT_EQ(Float16(std::numeric_limits<float>::max()).bits, 0x7c00);
}

TEST(BFloat16, OverflowStartsAtTheTieAboveTheLargest) {
  EXPECT_EQ(BFloat16(detail::float_from_bits(0x7f7f7fffu)).bits, 0x7f7f);
  EXPECT_EQ(BFloat16(detail::float_from_bits(0x7f7f8000u)).bits, 0x7f80);
  EXPECT_EQ(BFloat16(std::numeric_limits<float>::infinity()).bits, 0x7f80);
}

TEST(Float16, SubnormalsEndAtTheTieToZero) {
  const float least = 5.9604644775390625e-8f;  // 2^-24
  EXPECT_EQ(Float16(least).bits, 1);
  EXPECT_EQ(Float16(least / 2).bits, 0) << "a tie goes to the even neighbour, zero";
  EXPECT_EQ(Float16(std::nextafter(least / 2, 1.0f)).bits, 1);
  EXPECT_EQ(Float16(-least / 4).bits, 0x8000);
}

// A NaN whose payload sits in the lower half alone must not turn into an infinity.
TEST(BFloat16, NanWithALowPayloadStaysNan) {
  for (const std::uint32_t bits : {0x7f800001u, 0xff800001u, 0x7fffffffu}) {
    EXPECT_TRUE(std::isnan(static_cast<float>(BFloat16(detail::float_from_bits(bits)))));
    EXPECT_TRUE(std::isnan(static_cast<float>(Float16(detail::float_from_bits(bits)))));
  }
}

}  // namespace
}  // namespace tessera
