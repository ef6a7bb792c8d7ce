#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/support/kernel_test.h"
#include "tests/support/reference_ops.h"

namespace tessera::test {
namespace {

struct Size {
  std::int64_t m, n, k;
};
// One row, one column, odd numbers, and both sides of the 128 x 128 x 256 blocks.
constexpr Size kSizes[] = {{1, 1, 1},     {1, 37, 5},    {29, 1, 17},     {7, 13, 1},
                           {33, 65, 129}, {130, 260, 7}, {127, 129, 257}, {3, 300, 513}};

class GemmTest : public KernelTest {
 protected:
  // A matrix for an operand: rows x columns, stored the other way round when transposed.
  static Shape stored(std::int64_t rows, std::int64_t columns, bool transposed) {
    return transposed ? Shape{columns, rows} : Shape{rows, columns};
  }
  static Values product(const Values& a, const Values& b, const Size& size,
                        const GemmSpec& spec = {}) {
    Values d =
        reference::product(a, b, static_cast<std::size_t>(size.m), static_cast<std::size_t>(size.n),
                           static_cast<std::size_t>(size.k), spec.transpose_a, spec.transpose_b);
    for (double& each : d) each *= spec.alpha;
    return d;
  }
  static Values with_bias(Values d, const Values& bias) {
    for (std::size_t i = 0; i < d.size(); ++i) d[i] += bias[i % bias.size()];
    return d;
  }
};

TEST_P(GemmTest, EverySizeAndTransposition) {
  for (const Size& size : kSizes)
    for (const bool transpose_a : {false, true})
      for (const bool transpose_b : {false, true}) {
        const GemmSpec spec{.transpose_a = transpose_a, .transpose_b = transpose_b, .alpha = -0.5};
        const Input a = random(stored(size.m, size.k, transpose_a));
        const Input b = random(stored(size.k, size.n, transpose_b));
        const Tensor d = empty({size.m, size.n});
        lab->gemm(stream, d, View(a), View(b), spec);
        expect_values(d, product(a.values, b.values, size, spec), 2);
      }
}

TEST_P(GemmTest, AccumulatesOntoWhatIsThere) {
  const Size size{140, 20, 300};
  const Input a = random({size.m, size.k});
  const Input b = random({size.k, size.n});
  const Input d = random({size.m, size.n}, 10);
  const GemmSpec spec{.accumulate = true};
  lab->gemm(stream, d, View(a), View(b), spec);
  expect_values(View(d), reference::sum(d.values, product(a.values, b.values, size)), 2);
}

// Weight gradients of 16-bit layers are added up in float.
TEST_P(GemmTest, TheResultMayBeTheAccumulatorType) {
  const Size size{19, 131, 270};
  const Input a = random(stored(size.m, size.k, true));
  const Input b = random({size.k, size.n});
  const Input d = random(acc(), {size.m, size.n});
  const GemmSpec spec{.transpose_a = true, .accumulate = true};
  lab->gemm(stream, d, View(a), View(b), spec);
  expect_values(View(d), reference::sum(d.values, product(a.values, b.values, size, spec)), 2);
}

TEST_P(GemmTest, MatricesMayBeStrided) {
  const Size size{21, 18, 30};
  const Input a = random(stored(size.m, size.k, true));
  const Input b = random({size.k, size.n});
  const Padded wide_a = padded(a.tensor.view().shape(), a.values);
  const Padded wide_b = padded(b.tensor.view().shape(), b.values);
  const Padded d = padded({size.m, size.n});
  const Padded aux = padded({size.m, size.n});
  const GemmSpec spec{.transpose_a = true, .epilogue = Epilogue::bias_gelu, .aux = aux};
  lab->gemm(stream, d, View(wide_a), View(wide_b), spec);
  const Values expected = product(a.values, b.values, size, spec);
  expect_values(aux.view, expected, 2);
  expect_gaps_untouched(d);
  expect_gaps_untouched(aux);
}

TEST_P(GemmTest, AddsABiasBeforeRounding) {
  const Size size{131, 9, 64};
  const Input a = random({size.m, size.k});
  const Input b = random({size.k, size.n});
  const Input bias = random({size.n});
  const Tensor d = empty({size.m, size.n});
  GemmSpec spec{.epilogue = Epilogue::bias, .bias = View(bias)};
  lab->gemm(stream, d, View(a), View(b), spec);
  expect_values(d, with_bias(product(a.values, b.values, size), bias.values));

  // A bias that cancels all but the last bit of the product, which 16 bits cannot hold:
  // (1 + 2^-7)^2 = 1 + 2^-6 + 2^-14.
  const Input x = input(dtype(), {1, 1}, {1 + 0x1p-7});
  const Input minus = input(dtype(), {1}, {-1 - 0x1p-6});
  spec.bias = View(minus);
  const Tensor one = empty({1, 1});
  lab->gemm(stream, one, View(x), View(x), spec);
  EXPECT_EQ(lab.read(one), Values{0x1p-14});
}

TEST_P(GemmTest, GeluOfTheProductKeepsItsInput) {
  const Size size{35, 140, 20};
  const Input a = random({size.m, size.k}, 0.3);
  const Input b = random({size.k, size.n});
  const Input bias = random({size.n});
  for (const bool with : {true, false}) {
    const Tensor d = empty({size.m, size.n});
    const Tensor aux = empty({size.m, size.n});
    GemmSpec spec{.epilogue = Epilogue::bias_gelu, .aux = aux};
    if (with) spec.bias = View(bias);
    lab->gemm(stream, d, View(a), View(b), spec);
    const Values plain = product(a.values, b.values, size);
    expect_values(aux, with ? with_bias(plain, bias.values) : plain);
    Values expected = lab.read(aux);
    for (double& each : expected) each = reference::gelu(each);
    expect_values(d, expected);
  }
}

TEST_P(GemmTest, MultipliesByTheSlopeOfGelu) {
  const Size size{35, 140, 20};
  const Input a = random({size.m, size.k});
  const Input b = random(stored(size.k, size.n, true));
  const Input aux = random({size.m, size.n});
  const Tensor d = empty({size.m, size.n});
  const GemmSpec spec{.transpose_b = true, .epilogue = Epilogue::dgelu, .aux = aux};
  lab->gemm(stream, d, View(a), View(b), spec);
  const Values expected =
      reference::each(product(a.values, b.values, size, spec), aux.values,
                      [](double x, double pre) { return x * reference::gelu_slope(pre); });
  expect_values(d, expected, 2);
  EXPECT_EQ(lab.read(View(aux)), aux.values) << "aux is only read";
}

TEST_P(GemmTest, EmptyMatrices) {
  const Tensor a = empty({3, 0});
  const Tensor b = empty({0, 4});
  const Input d = random({3, 4});
  const GemmSpec spec{.accumulate = true};
  lab->gemm(stream, d, a.view(), b.view(), spec);
  EXPECT_EQ(lab.read(View(d)), d.values) << "nothing was added";
  lab->gemm(stream, d, a.view(), b.view(), {});
  EXPECT_EQ(lab.read(View(d)), Values(12, 0.0)) << "an empty sum is zero";
  lab->gemm(stream, empty({0, 4}), empty({0, 3}).view(), View(d), {});
}

TEST_P(GemmTest, ColumnSum) {
  for (const std::int64_t rows : {0, 1, 131})
    for (const std::int64_t columns : {1, 7, 259}) {
      const Input dy = random({rows, columns});
      const Values sums = reference::column_sum(dy.values, static_cast<std::size_t>(columns));
      const double floor = std::max(norm_of(dy.values), 1e-30);  // a sum may cancel
      const Tensor db = empty({columns});
      lab->column_sum(stream, db, View(dy), false);
      EXPECT_LE(relative_error(lab.read(db), sums, floor), tolerance());
      const Input more = random(acc(), {columns});
      lab->column_sum(stream, more, View(dy), true);
      EXPECT_LE(relative_error(lab.read(View(more)), reference::sum(more.values, sums), floor + 1),
                tolerance_of(acc()));
    }
}

TEST_P(GemmTest, ColumnSumOfStridedRows) {
  const Input dy = random({40, 5});
  const Padded wide = padded({40, 5}, dy.values);
  const Tensor db = empty({5});
  lab->column_sum(stream, db, wide.view, false);
  expect_values(db, reference::column_sum(dy.values, 5), 2);
}

TEST_P(GemmTest, Amax) {
  for (const std::int64_t rows : {1, 5, 700})
    for (const std::int64_t columns : {1, 33, 257}) {
      const Input x = random({rows, columns});
      double expected = 0;
      for (const double each : x.values) expected = std::max(expected, std::fabs(each));
      const Padded wide = padded({rows, columns}, x.values);
      const Tensor out = empty(DType::f32, {1});
      lab->amax(stream, out, wide.view, false);
      EXPECT_EQ(lab.read(out)[0], rounded(DType::f32, expected));
      lab->amax(stream, out, lab.full(dtype(), {2, 3}, -0.25), true);
      EXPECT_EQ(lab.read(out)[0], rounded(DType::f32, std::max(expected, 0.25))) << "accumulated";
      lab->amax(stream, out, lab.full(dtype(), {2, 3}, -0.25), false);
      EXPECT_EQ(lab.read(out)[0], 0.25);
    }
}

TEST_P(GemmTest, AmaxOfNothingAndOfWhatIsNotFinite) {
  const auto amax = [&](const Shape& shape, const Values& values) {
    const Tensor out = empty(DType::f32, {1});
    lab->amax(stream, out, lab.tensor(dtype(), shape, values), false);
    return lab.read(out)[0];
  };
  EXPECT_EQ(amax({0, 3}, {}), 0);
  EXPECT_EQ(amax({3, 0}, {}), 0);
  EXPECT_EQ(amax({1, 2}, {0, -0.0}), 0);
  EXPECT_EQ(amax({2, 2}, {1, -INFINITY, 3, 4}), INFINITY);
  EXPECT_TRUE(std::isnan(amax({2, 2}, {1, INFINITY, NAN, 4})));
}

TESSERA_KERNEL_SUITE(GemmTest);

}  // namespace
}  // namespace tessera::test
