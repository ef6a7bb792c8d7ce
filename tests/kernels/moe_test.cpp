// The ops of a mixture of experts against plain loops in double, and by hand.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/support/kernel_test.h"

namespace tessera::test {
namespace {

struct Sorted {
  Values order, place, offsets;
};

// Rows of experts [first, first + local) in the order of experts, then of rows.
Sorted sorted(const Values& expert, std::int64_t first, std::int64_t local) {
  Sorted s{Values(expert.size(), -1), Values(expert.size(), -1), {0}};
  std::size_t next = 0;
  for (std::int64_t e = first; e < first + local; ++e) {
    for (std::size_t i = 0; i < expert.size(); ++i)
      if (expert[i] == static_cast<double>(e)) {
        s.place[i] = static_cast<double>(next);
        s.order[next++] = static_cast<double>(i);
      }
    s.offsets.push_back(static_cast<double>(next));
  }
  return s;
}

class MoeTest : public KernelTest {
 protected:
  Tensor offsets_tensor(const Values& offsets) {
    return lab.tensor(DType::i32, {std::ssize(offsets)}, offsets);
  }
  // 130 rows: more than a tile, and not a multiple of one. Expert 1 has none; the last rows belong
  // to no expert.
  const Values offsets_{0, 67, 67, 70, 120};
  const std::int64_t rows_ = 130, experts_ = 4;
};

TEST_P(MoeTest, TheRouterTakesTheLargestLogitAndTheLowestOfEqualOnes) {
  const Values logits{1, 3, 2, /**/ 5, 5, 5, /**/ -1000, 0, 1000, /**/ 2, 7, 7};
  const Tensor expert = empty(DType::i32, {4}), probability = empty(acc(), {4});
  lab->route_top1(stream, expert, probability, lab.tensor(acc(), {4, 3}, logits));
  EXPECT_EQ(lab.read(expert), (Values{1, 0, 2, 1}));
  const double first = 1 / (1 + std::exp(-1) + std::exp(-2));
  const double last = 1 / (2 + std::exp(-5));
  EXPECT_LE(relative_error(lab.read(probability), {first, 1.0 / 3, 1, last}), 1e-6);
}

TEST_P(MoeTest, TheRoutersGradientIsThatOfTheSoftmax) {
  const std::int64_t n = 50, e = 5;
  const Input logits = random(acc(), {n, e}), dp = random(acc(), {n});
  const Tensor expert = empty(DType::i32, {n}), probability = empty(acc(), {n});
  lab->route_top1(stream, expert, probability, View(logits));
  const Tensor got = empty({n, e});
  lab->route_top1_backward(stream, got, View(dp), expert.view(), View(logits));
  Values want;
  for (std::int64_t i = 0; i < n; ++i) {
    const double* row = logits.values.data() + i * e;
    const auto chosen = std::max_element(row, row + e) - row;
    double sum = 0;
    for (std::int64_t j = 0; j < e; ++j) sum += std::exp(row[j]);
    const double p = std::exp(row[chosen]) / sum;
    for (std::int64_t j = 0; j < e; ++j)
      want.push_back(dp.values[static_cast<std::size_t>(i)] * p *
                     ((j == chosen ? 1 : 0) - std::exp(row[j]) / sum));
  }
  EXPECT_LE(relative_error(lab.read(got), want), tolerance(3));
}

TEST_P(MoeTest, RowsAreSortedByExpertAndKeepTheirOrder) {
  for (const std::int64_t rows : {0, 1, 5, 1024, 3000})
    for (const auto& [first, local] : {std::pair(0, 1), std::pair(0, 8), std::pair(2, 3)}) {
      SCOPED_TRACE(testing::Message() << rows << " rows, experts " << first << " + " << local);
      const Input expert = indices({rows}, 8);
      const Tensor order = empty(DType::i32, {rows}), place = empty(DType::i32, {rows});
      const Tensor offsets = empty(DType::i32, {local + 1});
      lab->sort_by_expert(stream, order, place, offsets, View(expert), first);
      const Sorted want = sorted(expert.values, first, local);
      EXPECT_EQ(lab.read(order), want.order);
      EXPECT_EQ(lab.read(place), want.place);
      EXPECT_EQ(lab.read(offsets), want.offsets);
    }
}

// Rows of no expert hold NaN in the input: they must not be read, and their results are 0.
TEST_P(MoeTest, GroupedProducts) {
  const std::int64_t n = 70, k = 33;
  const Tensor offsets = offsets_tensor(offsets_);
  const Input b = random({experts_, n, k}, 0.3);
  for (const bool transposed : {true, false}) {
    const std::int64_t in = transposed ? k : n, out = transposed ? n : k;
    Values a = random({rows_, in}).values;
    std::fill(a.begin() + 120 * in, a.end(), kNaN);
    Values want(static_cast<std::size_t>(rows_ * out), 0.0);
    for (std::int64_t e = 0; e < experts_; ++e)
      for (auto i = static_cast<std::int64_t>(offsets_[static_cast<std::size_t>(e)]);
           i < static_cast<std::int64_t>(offsets_[static_cast<std::size_t>(e) + 1]); ++i)
        for (std::int64_t o = 0; o < out; ++o)
          for (std::int64_t j = 0; j < in; ++j)
            want[static_cast<std::size_t>(i * out + o)] +=
                a[static_cast<std::size_t>(i * in + j)] *
                b.values[static_cast<std::size_t>((e * n + (transposed ? o : j)) * k +
                                                  (transposed ? j : o))];
    const Tensor d = lab.full(dtype(), {rows_, out}, kNaN);
    lab->grouped_gemm(stream, d, lab.tensor(dtype(), {rows_, in}, a), View(b), offsets.view(),
                      transposed);
    EXPECT_LE(relative_error(lab.read(d), want), tolerance(3)) << transposed;
  }
}

TEST_P(MoeTest, GroupedWeightGradients) {
  const std::int64_t n = 70, k = 33;
  const Tensor offsets = offsets_tensor(offsets_);
  Values a = random({rows_, n}).values, b = random({rows_, k}).values;
  std::fill(a.begin() + 120 * n, a.end(), kNaN);
  std::fill(b.begin() + 120 * k, b.end(), kNaN);
  Values sums(static_cast<std::size_t>(experts_ * n * k), 0.0);
  for (std::int64_t e = 0; e < experts_; ++e)
    for (auto i = static_cast<std::int64_t>(offsets_[static_cast<std::size_t>(e)]);
         i < static_cast<std::int64_t>(offsets_[static_cast<std::size_t>(e) + 1]); ++i)
      for (std::int64_t r = 0; r < n; ++r)
        for (std::int64_t c = 0; c < k; ++c)
          sums[static_cast<std::size_t>((e * n + r) * k + c)] +=
              a[static_cast<std::size_t>(i * n + r)] * b[static_cast<std::size_t>(i * k + c)];
  const Tensor a_tensor = lab.tensor(dtype(), {rows_, n}, a);
  const Tensor b_tensor = lab.tensor(dtype(), {rows_, k}, b);
  for (const DType type : {dtype(), acc()}) {
    const Tensor d = lab.full(type, {experts_, n, k}, kNaN);
    lab->grouped_weight_gradient(stream, d, a_tensor.view(), b_tensor.view(), offsets.view(),
                                 false);
    EXPECT_LE(relative_error(lab.read(d), sums), tolerance(3));
    const Tensor more = lab.full(type, {experts_, n, k}, 2);
    lab->grouped_weight_gradient(stream, more, a_tensor.view(), b_tensor.view(), offsets.view(),
                                 true);
    Values want = sums;
    for (double& each : want) each += 2;
    EXPECT_LE(relative_error(lab.read(more), want), tolerance(3));
  }
}

// No row for any expert, all rows for one, and no rows at all.
TEST_P(MoeTest, GroupedProductsOfUnevenGroups) {
  const std::int64_t n = 5, k = 7, rows = 150;
  const Input b = random({3, n, k}, 0.3), x = random({rows, k});
  const Input dy = random({rows, n});
  const std::vector<Values> groups{{0, 0, 0, 0}, {0, 0, double(rows), double(rows)}};
  for (const Values& group : groups) {
    const Tensor offsets = offsets_tensor(group);
    const Tensor y = lab.full(dtype(), {rows, n}, kNaN);
    lab->grouped_gemm(stream, y, View(x), View(b), offsets.view(), true);
    const bool empty_groups = group[2] == 0;
    Values want(static_cast<std::size_t>(rows * n), 0.0);
    Values sums(static_cast<std::size_t>(3 * n * k), 0.0);
    for (std::size_t i = 0; !empty_groups && i < static_cast<std::size_t>(rows); ++i)
      for (std::size_t o = 0; o < 5; ++o)
        for (std::size_t j = 0; j < 7; ++j) {
          want[i * 5 + o] += x.values[i * 7 + j] * b.values[(5 + o) * 7 + j];
          sums[(5 + o) * 7 + j] += dy.values[i * 5 + o] * x.values[i * 7 + j];
        }
    EXPECT_LE(relative_error(lab.read(y), want, 1e-30), tolerance(3));
    const Tensor dw = lab.full(acc(), {3, n, k}, kNaN);
    lab->grouped_weight_gradient(stream, dw, View(dy), View(x), offsets.view(), false);
    EXPECT_LE(relative_error(lab.read(dw), sums, 1e-30), tolerance(3));
  }
  const Tensor offsets = offsets_tensor({0, 0, 0, 0});
  const Tensor none = empty({0, n}), no_x = empty({0, k});
  lab->grouped_gemm(stream, none, no_x.view(), View(b), offsets.view(), true);
  const Tensor dw = lab.full(acc(), {3, n, k}, kNaN);
  lab->grouped_weight_gradient(stream, dw, none.view(), no_x.view(), offsets.view(), false);
  EXPECT_EQ(lab.read(dw), Values(static_cast<std::size_t>(3 * n * k), 0.0));
}

TEST_P(MoeTest, WeightsOfRowsAndTheirGradients) {
  const std::int64_t n = 37, c = 70;
  const Input x = random({n, c}), y = random({n, c}), scale = random(acc(), {n});
  const Tensor scaled = empty({n, c}), dots = empty(acc(), {n});
  lab->scale_rows(stream, scaled, View(x), View(scale));
  lab->row_dot(stream, dots, View(x), View(y));
  Values want_scaled, want_dots;
  for (std::size_t i = 0; i < 37; ++i) {
    want_dots.push_back(0);
    for (std::size_t j = 0; j < 70; ++j) {
      want_scaled.push_back(scale.values[i] * x.values[i * 70 + j]);
      want_dots.back() += x.values[i * 70 + j] * y.values[i * 70 + j];
    }
  }
  EXPECT_LE(relative_error(lab.read(scaled), want_scaled), tolerance());
  EXPECT_LE(relative_error(lab.read(dots), want_dots), 1e-5);
}

TESSERA_KERNEL_SUITE(MoeTest);

}  // namespace
}  // namespace tessera::test
