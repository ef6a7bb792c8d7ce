// The dispatch of rows to experts, and their products, against plain loops in double.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/support/kernel_test.h"

namespace tessera::test {
namespace {

struct Sorted {
  Values order, place, offsets;
};

// Pairs of experts [first, first + local) in the order of experts, then of pairs; `places` of them.
Sorted sorted(const Values& expert, std::int64_t first, std::int64_t local, std::int64_t places) {
  Sorted s{Values(static_cast<std::size_t>(places), -1), Values(expert.size(), -1), {0}};
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

// k different experts for each row.
TEST_P(MoeTest, PairsAreSortedByExpertAndKeepTheirOrder) {
  for (const std::int64_t rows : {0, 1, 5, 512, 1500})
    for (const std::int64_t k : {1, 2, 8})
      for (const auto& [first, local] : {std::pair(0, 1), std::pair(0, 8), std::pair(2, 3)}) {
        SCOPED_TRACE(testing::Message()
                     << rows << " x " << k << ", experts " << first << " + " << local);
        Values chosen = indices({rows, k}, 8).values;
        for (std::size_t i = 0; i < chosen.size(); ++i)
          if (const auto j = i % static_cast<std::size_t>(k); j > 0)
            chosen[i] = std::fmod(chosen[i - j] + static_cast<double>(j), 8.0);
        const std::int64_t places = rows * std::min<std::int64_t>(k, local) + 3;
        const Tensor order = empty(DType::i32, {places}), place = empty(DType::i32, {rows, k});
        const Tensor offsets = empty(DType::i32, {local + 1});
        lab->sort_by_expert(stream, order, place, offsets,
                            lab.tensor(DType::i32, {rows, k}, chosen), first);
        const Sorted want = sorted(chosen, first, local, places);
        EXPECT_EQ(lab.read(order), want.order);
        EXPECT_EQ(lab.read(place), want.place);
        EXPECT_EQ(lab.read(offsets), want.offsets);
      }
}

// Every expert has 3 places; the fourth pair of expert 2 has none.
TEST_P(MoeTest, PaddedExpertsHaveTheSamePlaces) {
  const Values chosen{1, 2, 2, 0, 2, 4, 2, 5};
  const Tensor order = empty(DType::i32, {11}), place = empty(DType::i32, {4, 2});
  const Tensor offsets = empty(DType::i32, {4});
  lab->sort_by_expert(stream, order, place, offsets, lab.tensor(DType::i32, {4, 2}, chosen), 1, 3);
  EXPECT_EQ(lab.read(order), (Values{0, -1, -1, 1, 2, 4, -1, -1, -1, -1, -1}));
  EXPECT_EQ(lab.read(place), (Values{0, 3, 4, -1, 5, -1, -1, -1}));
  EXPECT_EQ(lab.read(offsets), (Values{0, 3, 6, 9}));
  const Tensor none = empty(DType::i32, {0, 2});
  lab->sort_by_expert(stream, order, none, offsets, none.view(), 1, 3);
  EXPECT_EQ(lab.read(order), Values(11, -1));
  EXPECT_EQ(lab.read(offsets), (Values{0, 3, 6, 9}));
}

// Each shard of an expert is a number of its own; the shards of one rank are consecutive.
TEST_P(MoeTest, ShardsOfExpertsAreNumberedByRank) {
  const std::int64_t local = 2, ranks = 3;
  const Tensor shard = empty(DType::i32, {2, 6});
  lab->expert_shards(stream, shard, lab.tensor(DType::i32, {2, 2}, {0, 3, -1, 5}), local, ranks);
  EXPECT_EQ(lab.read(shard), (Values{0, 2, 4, 7, 9, 11, /**/ -1, -1, -1, 13, 15, 17}));
}

// What ranks sent in the order of their own pairs, against a stable sort of all rows by expert.
TEST_P(MoeTest, ReceivedRowsAreSortedByExpertThenRank) {
  for (const std::int64_t ranks : {1, 2, 7})
    for (const std::int64_t local : {1, 3})
      for (std::int64_t rank = 0; rank < ranks; ++rank) {
        const std::int64_t experts = ranks * local;
        Values all;                // offsets of all ranks
        std::vector<Values> rows;  // of each local expert, the numbers of received rows
        rows.resize(static_cast<std::size_t>(local));
        double next = 0;
        for (std::int64_t r = 0; r < ranks; ++r) {
          all.push_back(0);
          for (std::int64_t e = 0; e < experts; ++e) {
            const std::int64_t count = (r * 5 + e * 3) % 4 * (e % 2 == 0 ? 70 : 1);
            all.push_back(all.back() + static_cast<double>(count));
            if (e / local != rank) continue;
            for (std::int64_t i = 0; i < count; ++i)
              rows[static_cast<std::size_t>(e % local)].push_back(next++);
          }
        }
        Values order, place(static_cast<std::size_t>(next)), offsets{0};
        for (const Values& of_expert : rows) {
          for (const double row : of_expert) {
            place[static_cast<std::size_t>(row)] = static_cast<double>(order.size());
            order.push_back(row);
          }
          offsets.push_back(static_cast<double>(order.size()));
        }
        const auto count = static_cast<std::int64_t>(next);
        const Tensor got_order = empty(DType::i32, {count}),
                     got_place = empty(DType::i32, {count, 1});
        const Tensor got_offsets = empty(DType::i32, {local + 1});
        lab->sort_received(stream, got_order, got_place, got_offsets,
                           lab.tensor(DType::i32, {ranks, experts + 1}, all), rank);
        SCOPED_TRACE(testing::Message() << ranks << " ranks x " << local << ", rank " << rank);
        EXPECT_EQ(lab.read(got_order), order);
        EXPECT_EQ(lab.read(got_place), place);
        EXPECT_EQ(lab.read(got_offsets), offsets);
      }
}

// Copies are exact. Sums over pairs are those of the values; pairs without a place add nothing.
TEST_P(MoeTest, RowsOfPairsAndTheirSums) {
  const std::int64_t n = 5, c = 300, k = 3;
  const Input x = random({n, c});
  const Values order{4, -1, 14, 0, 1, -1};
  const Tensor pairs = empty({6, c});
  lab->permute_rows(stream, pairs, View(x), lab.tensor(DType::i32, {6}, order), k);
  Values want;
  for (const double pair : order)
    for (std::int64_t j = 0; j < c; ++j)
      want.push_back(
          pair < 0
              ? 0
              : x.values[static_cast<std::size_t>(static_cast<std::int64_t>(pair) / k * c + j)]);
  EXPECT_EQ(lab.read(pairs), want);
  const Values place{0, 1, -1, /**/ -1, -1, -1, /**/ 4, 3, 2, /**/ 2, 2, 2, /**/ -1, 4, -1};
  const Tensor sums = empty({n, c});
  lab->unpermute_rows(stream, sums, View(x), lab.tensor(DType::i32, {n, k}, place));
  Values want_sums;
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < c; ++j) {
      double sum = 0;
      for (std::int64_t p = 0; p < k; ++p)
        if (const double from = place[static_cast<std::size_t>(i * k + p)]; from >= 0)
          sum += x.values[static_cast<std::size_t>(static_cast<std::int64_t>(from) * c + j)];
      want_sums.push_back(sum);
    }
  EXPECT_LE(relative_error(lab.read(sums), want_sums), tolerance());
}

// With and without a gate: values, gradients, and y computed again in place of dy.
TEST_P(MoeTest, ActivationsOfExpertsAreWeighted) {
  const std::int64_t n = 9, f = 150;
  for (const bool gated : {false, true}) {
    const std::int64_t width = gated ? 2 * f : f;
    const Input x = random({n, width}), dy = random({n, f}), p = random(acc(), {n});
    const auto silu = [](double v) { return v / (1 + std::exp(-v)); };
    const auto slope = [](double v) {
      const double s = 1 / (1 + std::exp(-v));
      return s * (1 + v * (1 - s));
    };
    Values y, dx(static_cast<std::size_t>(n * width)), dp;
    for (std::int64_t i = 0; i < n; ++i) {
      dp.push_back(0);
      const double weight = p.values[static_cast<std::size_t>(i)];
      for (std::int64_t j = 0; j < f; ++j) {
        const auto at = static_cast<std::size_t>(i * width + j);
        const double g = x.values[at], d = dy.values[static_cast<std::size_t>(i * f + j)];
        const double u = gated ? x.values[at + static_cast<std::size_t>(f)] : 1;
        y.push_back(weight * silu(g) * u);
        dp.back() += d * silu(g) * u;
        dx[at] = weight * d * u * slope(g);
        if (gated) dx[at + static_cast<std::size_t>(f)] = weight * d * silu(g);
      }
    }
    const Tensor got = empty({n, f}), got_dx = empty({n, width}), got_dp = empty(acc(), {n});
    lab->expert_activation_forward(stream, got, View(x), View(p), Activation::silu);
    EXPECT_LE(relative_error(lab.read(got), y), tolerance(2));
    const Tensor again = lab.tensor(dtype(), {n, f}, dy.values);
    lab->expert_activation_backward(stream, got_dx, again, got_dp, again.view(), View(x), View(p),
                                    Activation::silu);
    EXPECT_LE(relative_error(lab.read(again), y), tolerance(2));
    EXPECT_LE(relative_error(lab.read(got_dx), dx), tolerance(2));
    EXPECT_LE(relative_error(lab.read(got_dp), dp), std::max(1e-6, tolerance()));
    lab->expert_activation_backward(stream, got_dx, {}, got_dp, View(dy), View(x), View(p),
                                    Activation::silu);
    EXPECT_LE(relative_error(lab.read(got_dx), dx), tolerance(2));
  }
}

// Sizes of an expert's matrix: odd ones, and such as tensor cores take, of several tiles.
struct MatrixSize {
  std::int64_t n, k;
};
constexpr MatrixSize kMatrixSizes[] = {{70, 33}, {264, 136}};

// Rows of no expert hold NaN in the input: they must not be read, and their results are 0.
TEST_P(MoeTest, GroupedProducts) {
  for (const auto& [n, k] : kMatrixSizes) {
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
}

TEST_P(MoeTest, GroupedWeightGradients) {
  for (const auto& [n, k] : kMatrixSizes) {
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
