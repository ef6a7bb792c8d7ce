// Rotation by position, residual addition, copies and fills.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/support/kernel_test.h"
#include "tests/support/reference_ops.h"

namespace tessera::test {
namespace {

class PointwiseTest : public KernelTest {};

// Rotates by tables that hold any numbers, so that nothing rests on cos^2 + sin^2 = 1.
TEST_P(PointwiseTest, RopeTurnsTheFirstChannelsByPosition) {
  const std::int64_t s = 5, b = 2, heads = 3, d = 10, r = 3, positions = 11;
  const Input x = random({s, b, heads, d});
  const Input cos = random(acc(), {positions, r});
  const Input sin = random(acc(), {positions, r});
  const Input at = indices({s, b}, positions);
  const auto rows_of = [&](const Values& table, double sign) {
    Values rows;
    for (const double position : at.values)
      for (std::int64_t h = 0; h < heads; ++h)
        for (std::int64_t j = 0; j < r; ++j)
          rows.push_back(
              sign * table[static_cast<std::size_t>(position) * r + static_cast<std::size_t>(j)]);
    return rows;
  };
  for (const RopePairs pairs : {RopePairs::halves, RopePairs::interleaved})
    for (const bool inverse : {false, true}) {
      const Padded turned = padded({s, b, heads, d}, x.values);
      lab->rope(stream, turned, View(cos), View(sin), View(at), inverse, pairs);
      expect_values(turned.view, reference::rope(x.values, d, rows_of(cos.values, 1),
                                                 rows_of(sin.values, inverse ? -1 : 1), r, pairs));
      expect_gaps_untouched(turned);
    }
}

// The two ways to pair channels differ by an order of the channels, and in nothing else.
TEST_P(PointwiseTest, RopeOfInterleavedPairsIsThatOfHalvesInAnotherOrder) {
  const std::int64_t s = 4, heads = 2, r = 5;
  const Input x = random({s, 1, heads, 2 * r});
  const Input cos = random(acc(), {s, r}), sin = random(acc(), {s, r});
  const Tensor at = lab.tensor(DType::i32, {s, 1}, {0, 1, 2, 3});
  const auto interleaved = [&](const Values& halves) {
    Values y(halves.size());
    const auto width = static_cast<std::size_t>(2 * r);
    for (std::size_t i = 0; i < y.size(); ++i)
      y[i] = halves[i / width * width + i % 2 * width / 2 + i % width / 2];
    return y;
  };
  const Tensor mixed = lab.tensor(dtype(), {s, 1, heads, 2 * r}, interleaved(x.values));
  lab->rope(stream, x, View(cos), View(sin), at, false);
  lab->rope(stream, mixed, View(cos), View(sin), at, false, RopePairs::interleaved);
  EXPECT_EQ(lab.read(mixed), interleaved(lab.read(View(x))));
}

TEST_P(PointwiseTest, SumHeads) {
  const std::int64_t n = 7, heads = 3, c = 70;
  const Input all = random({n, heads, 80});
  const ConstView x = View(all).slice(2, 5, c);
  const Padded y = padded({n, c});
  lab->sum_heads(stream, y, x);
  const Values values = lab.read(x);
  Values want(static_cast<std::size_t>(n * c));
  for (std::size_t i = 0; i < values.size(); ++i) want[i / (heads * c) * c + i % c] += values[i];
  expect_values(y.view, want);
  expect_gaps_untouched(y);
}

TEST_P(PointwiseTest, SoftmaxOfRows) {
  for (const std::int64_t n : {1, 5, 1300}) {
    const Input x = random(acc(), {3, n}, 20);
    const Tensor y = empty({3, n});
    lab->softmax_rows(stream, y, View(x));
    Values want;
    for (std::int64_t row = 0; row < 3; ++row) {
      const double* from = x.values.data() + row * n;
      const double most = *std::max_element(from, from + n);
      double sum = 0;
      for (std::int64_t j = 0; j < n; ++j) sum += std::exp(from[j] - most);
      for (std::int64_t j = 0; j < n; ++j) want.push_back(std::exp(from[j] - most) / sum);
    }
    expect_values(y, want, 2);
  }
}

TEST_P(PointwiseTest, AddWithoutDropout) {
  const Input x = random({3, 21});
  const Input branch = random({3, 21});
  const Tensor y = empty({3, 21});
  lab->add_dropout(stream, y, {}, View(branch), {});
  EXPECT_EQ(lab.bytes(y), lab.bytes(branch));
  lab->add_dropout(stream, y, View(x), View(branch), {});
  expect_values(y, reference::sum(x.values, branch.values));
  lab->add_dropout(stream, x, View(x), View(branch), {});
  EXPECT_EQ(lab.bytes(x), lab.bytes(y)) << "y may be x";
}

TEST_P(PointwiseTest, CopyConvertsBetweenAllFloats) {
  const Input from = random({3, 50});
  for (const DType to : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
    const Tensor y = empty(to, {3, 50});
    lab->copy(stream, y, View(from));
    EXPECT_EQ(lab.read(y), rounded(to, from.values));
  }
}

TEST_P(PointwiseTest, CopyBetweenAnyStrides) {
  const Input x = random({3, 4, 5});
  const Padded from = padded({3, 4, 5}, x.values);
  const Padded to = padded({3, 4, 5});
  lab->copy(stream, to, from.view);
  EXPECT_EQ(lab.read(to.view), x.values);
  expect_gaps_untouched(to);

  const View transposed(x.tensor.view().raw(), dtype(), {5, 4, 3}, {1, 5, 20});
  const Tensor y = empty({5, 4, 3});
  lab->copy(stream, y, transposed);
  EXPECT_EQ(lab.read(y), lab.read(transposed));
  const Tensor narrow = empty(DType::bf16, {5, 4, 3});
  lab->copy(stream, narrow, transposed);
  EXPECT_EQ(lab.read(narrow), rounded(DType::bf16, lab.read(transposed)));
}

TEST_P(PointwiseTest, CopyOfLongNarrowAndEmptyTensors) {
  for (const Shape& shape : {Shape{70'000}, Shape{}, Shape{0, 3}, Shape{20'000, 1}}) {
    const Input x = random(shape);
    const Tensor y = empty(shape);
    lab->copy(stream, y, View(x));
    EXPECT_EQ(lab.bytes(y), lab.bytes(x));
  }
}

TEST_P(PointwiseTest, Fill) {
  const Tensor x = empty({70'001});
  lab->fill(stream, x, 0.3);
  EXPECT_EQ(lab.read(x), Values(70'001, rounded(dtype(), 0.3)));
  const Padded part{empty({4, 9}), {}};
  lab->fill(stream, part.whole.view().slice(0, 1, 2), 1);
  Values expected(36, -55);
  std::fill(expected.begin() + 9, expected.begin() + 27, 1);
  EXPECT_EQ(lab.read(part.whole), expected);
}

TESSERA_KERNEL_SUITE(PointwiseTest);

class WholeNumbers : public ::testing::TestWithParam<Device> {};

TEST_P(WholeNumbers, FillAndCopy) {
  Lab lab(GetParam());
  for (const DType type : {DType::i64, DType::i32, DType::u8}) {
    const Tensor x = lab.full(type, {5}, 9);
    const Tensor y = lab.full(type, {5}, 9);
    lab->fill(lab.stream, x, 200);
    lab->copy(lab.stream, y, x);
    EXPECT_EQ(lab.read(y), Values(5, 200));
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, WholeNumbers, ::testing::ValuesIn(devices()),
                         [](const auto& each) { return device_name(each.param); });

}  // namespace
}  // namespace tessera::test
