#include "tessera/checkpoint/format/convert.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <vector>

#include "tessera/base/check.h"

namespace tessera {
namespace {

TEST(Convert, ChangesFloatTypes) {
  const std::vector<double> source{1.0, -2.5, 3.140625, 65504.0, 1e-3};
  std::vector<float> f32(5);
  std::vector<BFloat16> bf16(5);
  std::vector<Float16> f16(5);
  std::vector<double> back(5);
  const ConstView from(source.data(), DType::f64, {5});
  convert_into(View(f32.data(), DType::f32, {5}), from);
  convert_into(View(bf16.data(), DType::bf16, {5}), from);
  convert_into(View(f16.data(), DType::f16, {5}), from);
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(f32[i], static_cast<float>(source[i]));
    EXPECT_EQ(bf16[i].bits, BFloat16(static_cast<float>(source[i])).bits);
    EXPECT_EQ(f16[i].bits, Float16(static_cast<float>(source[i])).bits);
  }
  convert_into(View(back.data(), DType::f64, {5}), ConstView(f16.data(), DType::f16, {5}));
  EXPECT_EQ(back[3], 65504.0);
  convert_into(View(f32.data(), DType::f32, {5}), ConstView(bf16.data(), DType::bf16, {5}));
  EXPECT_EQ(f32[2], 3.140625f);
}

TEST(Convert, KeepsTheBitsOfEqualTypes) {
  const std::vector<double> source{1.0 / 3.0, 1e300, -0.0};
  std::vector<double> copy(3);
  convert_into(View(copy.data(), DType::f64, {3}), ConstView(source.data(), DType::f64, {3}));
  EXPECT_EQ(std::memcmp(copy.data(), source.data(), 24), 0);
}

TEST(Convert, TransposesThroughStrides) {
  std::vector<float> source(6);
  std::iota(source.begin(), source.end(), 0.0f);
  std::vector<double> transposed(6);
  const View to(transposed.data(), DType::f64, {3, 2});
  convert_into(transposed_view(to), ConstView(source.data(), DType::f32, {2, 3}));
  EXPECT_EQ(transposed, (std::vector<double>{0, 3, 1, 4, 2, 5}));
}

TEST(Convert, WalksThreeStridedDimensions) {
  std::vector<std::int32_t> source(48);
  std::iota(source.begin(), source.end(), 0);
  const ConstView box =
      ConstView(source.data(), DType::i32, {2, 4, 6}).slice(1, 1, 2).slice(2, 3, 2);
  std::vector<std::int32_t> copy(8);
  convert_into(View(copy.data(), DType::i32, {2, 2, 2}), box);
  EXPECT_EQ(copy, (std::vector<std::int32_t>{9, 10, 15, 16, 33, 34, 39, 40}));
}

TEST(Convert, ReadsUnalignedMemory) {
  const std::vector<float> source{1.5f, -7.0f, 0.25f};
  std::vector<std::byte> bytes(13);
  std::memcpy(bytes.data() + 1, source.data(), 12);
  std::vector<double> copy(3);
  convert_into(View(copy.data(), DType::f64, {3}), ConstView(bytes.data() + 1, DType::f32, {3}));
  EXPECT_EQ(copy, (std::vector<double>{1.5, -7.0, 0.25}));
}

TEST(Convert, TakesScalarsAndEmptyTensors) {
  const float one = 1.0f;
  double copy = 0.0;
  convert_into(View(&copy, DType::f64, {}), ConstView(&one, DType::f32, {}));
  EXPECT_EQ(copy, 1.0);
  convert_into(View(&copy, DType::f64, {0, 3}), ConstView(&one, DType::f32, {0, 3}));
  EXPECT_EQ(copy, 1.0);
}

TEST(Convert, RefusesOtherShapesAndIntegers) {
  float x[4] = {};
  std::int64_t n[4] = {};
  EXPECT_THROW(convert_into(View(x, DType::f32, {4}), ConstView(x, DType::f32, {2, 2})), Error);
  EXPECT_THROW(convert_into(View(x, DType::f32, {4}), ConstView(n, DType::i64, {4})), Error);
  EXPECT_THROW(transposed_view(View(x, DType::f32, {1, 2, 2})), Error);
}

}  // namespace
}  // namespace tessera
