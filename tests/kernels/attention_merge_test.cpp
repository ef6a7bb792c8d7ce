// Attention over two parts of the keys, joined, is attention over all of them.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "tests/support/attention_run.h"
#include "tests/support/kernel_test.h"

namespace tessera::test {
namespace {

constexpr double kNoKey = -std::numeric_limits<double>::infinity();

class AttentionMergeTest : public KernelTest {
 protected:
  // Merges b into a, in place.
  void merge(const View& o, const View& lse, const View& o_b, const View& lse_b) {
    lab->attention_merge(stream, o, lse, o, lse, o_b, lse_b);
  }
};

TEST_P(AttentionMergeTest, PartsOfTheKeysGiveTheWhole) {
  const AttentionCase c{.name = "whole",
                        .S = 70,
                        .T = 90,
                        .B = 2,
                        .H = 4,
                        .K = 2,
                        .D = 5,
                        .E = 7,
                        .window = 50,
                        .q_start = 20};
  const reference::AttentionInputs x{random(c.q_shape()).values, random(c.k_shape()).values,
                                     random(c.v_shape()).values};
  const reference::Attention expected = reference::attention(c, x);
  AttentionRun whole(lab, c, dtype(), x);
  const Tensor o = lab.full(acc(), c.o_shape(), kNaN);
  const Tensor lse = lab.full(acc(), {c.B, c.H, c.S}, kNoKey);
  // Queries of the last part see no key of the first, and the other way round.
  for (const auto& [begin, length] : {std::pair(0, 10), std::pair(10, 45), std::pair(55, 35)}) {
    AttentionSpec spec = whole.setup.spec;
    spec.kv_start = begin;
    lab->attention_forward(stream, whole.o.view, whole.lse, whole.q.view,
                           whole.k.view.slice(0, begin, length),
                           whole.v.view.slice(0, begin, length), spec, whole.setup.workspace);
    merge(o, lse, whole.o.view, whole.lse);
  }
  EXPECT_LE(relative_error(lab.read(o), expected.o), tolerance(3));
  expect_values(lse.view(), expected.lse, 3, "lse");
}

// One query with the scores 1, 2, 3, -1 (q = 1, so that dk is the gradient of the scores) and
// values of two channels, known by hand; attention works on a half of the keys at a time.
class KnownNumbersTest : public AttentionMergeTest {
 protected:
  struct Part {
    Tensor o, lse;
  };

  void SetUp() override {
    AttentionMergeTest::SetUp();
    spec_.causal = false;
    q_ = lab.tensor(dtype(), kOne, {1});
    k_ = lab.tensor(dtype(), kRows, {1, 2, 3, -1});
    v_ = lab.tensor(dtype(), kValues, {1, 0, 0, 1, 2, -1, 4, 4});
    d_o_ = lab.tensor(dtype(), kOut, {1, -2});
    workspace_ = lab.workspace(
        lab->attention_workspace_bytes(kOne, kRows, kValues, dtype(), AttentionGradients::summed));
  }
  Part forward(std::int64_t first, std::int64_t keys) {
    Part part{empty(kOut), empty(acc(), {1, 1, 1})};
    lab->attention_forward(stream, part.o.view(), part.lse.view(), q_.view(), k(first, keys),
                           v(first, keys), spec_, workspace_.view());
    return part;
  }
  // dk of two keys, from the output and the log-sum-exp of these or more.
  Values score_gradients(std::int64_t first, const Part& of) {
    const Tensor dq = lab.full(acc(), kOne, kNaN), dk = lab.full(acc(), {2, 1, 1, 1}, kNaN);
    const Tensor dv = lab.full(acc(), {2, 1, 1, 2}, kNaN);
    lab->attention_backward(stream, dq.view(), dk.view(), dv.view(), d_o_.view(), q_.view(),
                            k(first, 2), v(first, 2), of.o.view(), of.lse.view(), spec_,
                            workspace_.view());
    return lab.read(dk);
  }
  void expect_numbers(const Values& got, const Values& want, const char* name) {
    const double near = dtype() == DType::bf16 ? 3e-2 : dtype() == DType::f16 ? 4e-3 : 1e-6;
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], near) << name;
  }
  Part merged() {
    Part whole = forward(0, 2);
    const Part second = forward(2, 2);
    merge(whole.o.view(), whole.lse.view(), second.o.view(), second.lse.view());
    return whole;
  }

  Tensor d_o_;

 private:
  View k(std::int64_t first, std::int64_t keys) const { return k_.view().slice(0, first, keys); }
  View v(std::int64_t first, std::int64_t keys) const { return v_.view().slice(0, first, keys); }

  inline static const Shape kOne{1, 1, 1, 1}, kRows{4, 1, 1, 1}, kValues{4, 1, 1, 2},
      kOut{1, 1, 1, 2};
  AttentionSpec spec_;
  Tensor q_, k_, v_, workspace_;
};

TEST_P(KnownNumbersTest, HalvesMergeToTheWhole) {
  const Part first = forward(0, 2), second = forward(2, 2);
  expect_numbers(lab.read(first.o), {0.26894142, 0.73105858}, "first half");
  expect_numbers(lab.read(first.lse), {2.31326169}, "its log-sum-exp");
  expect_numbers(lab.read(second.o), {2.03597242, -0.91006895}, "second half");
  expect_numbers(lab.read(second.lse), {3.01814993}, "its log-sum-exp");
  for (const Part& whole : {merged(), forward(0, 4)}) {
    expect_numbers(lab.read(whole.o), {1.45156343, -0.36729993}, "whole");
    expect_numbers(lab.read(whole.lse), {3.41971665}, "log-sum-exp");
  }
}

TEST_P(KnownNumbersTest, HalvesOfBackwardAddUp) {
  const Part whole = merged();
  const Values o = lab.read(whole.o), d_o = lab.read(d_o_);
  expect_numbers({o[0] * d_o[0] + o[1] * d_o[1]}, {2.18616330}, "delta");
  const Values first = score_gradients(0, whole), second = score_gradients(2, whole);
  expect_numbers(first, {-0.10550545, -1.0121411}, "first half");
  expect_numbers(second, {1.19211337, -0.07446682}, "second half");
  expect_numbers({first[0] + first[1] + second[0] + second[1]}, {0}, "sum");
}

// With the output and the log-sum-exp of a half alone, gradients are those of attention to this
// half: another function.
TEST_P(KnownNumbersTest, AHalfAloneHasOtherGradients) {
  expect_numbers(score_gradients(0, forward(0, 2)), {0.58983580, -0.58983580}, "first half");
}

TESSERA_KERNEL_SUITE(KnownNumbersTest);

// Of four queries neither part has a key, then either, then both.
TEST_P(AttentionMergeTest, APartWithoutKeysIsNotLookedAt) {
  const Shape shape{4, 1, 1, 2};
  const Tensor a = lab.tensor(dtype(), shape, {kNaN, kNaN, kNaN, kNaN, 3, 4, 1, 1});
  const Tensor lse_a = lab.tensor(acc(), {1, 1, 4}, {kNoKey, kNoKey, 2, 5});
  const Tensor b = lab.tensor(dtype(), shape, {kNaN, kNaN, 5, 6, kNaN, kNaN, 3, 3});
  const Tensor lse_b = lab.tensor(acc(), {1, 1, 4}, {kNoKey, -3, kNoKey, 5});
  const Tensor o = empty(shape);
  const Tensor lse = empty(acc(), {1, 1, 4});
  lab->attention_merge(stream, o, lse, a, lse_a, b, lse_b);
  expect_values(o.view(), {0, 0, 5, 6, 3, 4, 2, 2});
  const Values sums = lab.read(lse);
  EXPECT_EQ((Values{sums[0], sums[1], sums[2]}), (Values{kNoKey, -3, 2}));
  EXPECT_NEAR(sums[3], 5 + std::log(2.0), 1e-6);
}

TEST_P(AttentionMergeTest, ANanThatCountsComesOut) {
  const Shape shape{1, 1, 1, 1};
  const Tensor o = lab.tensor(dtype(), shape, {1});
  const Tensor lse = lab.tensor(acc(), {1, 1, 1}, {500});
  const Tensor lse_b = lab.tensor(acc(), {1, 1, 1}, {-500});
  merge(o, lse, lab.tensor(dtype(), shape, {kNaN}), lse_b);
  EXPECT_TRUE(std::isnan(lab.read(o)[0]));
  const Tensor fresh = lab.tensor(dtype(), shape, {1});
  merge(fresh, lab.tensor(acc(), {1, 1, 1}, {kNaN}), fresh, lse_b);
  EXPECT_TRUE(std::isnan(lab.read(fresh)[0]));
}

TEST_P(AttentionMergeTest, RowsMayBeStrided) {
  const Shape shape{3, 2, 2, 5};
  const Input a = random(shape);
  const Input b = random(shape);
  const Input lse_a = random(acc(), {2, 2, 3});
  const Input lse_b = random(acc(), {2, 2, 3});
  const Tensor plain = empty(shape);
  const Tensor lse = empty(acc(), {2, 2, 3});
  lab->attention_merge(stream, plain, lse, View(a), View(lse_a), View(b), View(lse_b));
  const Padded strided = padded(shape);
  lab->attention_merge(stream, strided.view, lse, padded(shape, a.values).view, View(lse_a),
                       padded(shape, b.values).view, View(lse_b));
  EXPECT_EQ(lab.read(strided.view), lab.read(plain));
  expect_gaps_untouched(strided);
}

// A ring sums outputs in the accumulator dtype from the second part to the last, which is rounded:
// part + part -> sum, sum + part -> sum, sum + part -> output.
TEST_P(AttentionMergeTest, SumsMayBeInTheAccumulatorType) {
  const Shape shape{3, 2, 2, 8}, sums{2, 2, 3};
  const std::array<Input, 4> parts{random(shape), random(shape), random(shape), random(shape)};
  const std::array<Input, 4> lses{random(acc(), sums), random(acc(), sums), random(acc(), sums),
                                  random(acc(), sums)};
  const auto merged = [&](DType between) {
    const Tensor sum = lab.full(between, shape, kNaN), lse = empty(acc(), sums);
    const Tensor out = empty(shape);
    const auto add = [&](const View& to, const View& before, const View& lse_before, int part) {
      const auto at = static_cast<std::size_t>(part);
      lab->attention_merge(stream, to, lse, before, lse_before, View(parts[at]), View(lses[at]));
    };
    add(sum, parts[0], lses[0], 1);
    add(sum, sum, lse, 2);
    add(out, sum, lse, 3);
    return std::pair(lab.read(out), lab.read(lse));
  };
  const auto [wide, wide_lse] = merged(acc());
  const auto [narrow, narrow_lse] = merged(dtype());
  EXPECT_EQ(wide_lse, narrow_lse);
  EXPECT_LE(relative_error(narrow, wide), tolerance(3));
}

// The log-sum-exps of some rows among those of all.
TEST_P(AttentionMergeTest, RowsOfTheLogSumExpMayBeStrided) {
  const Shape shape{3, 2, 2, 5}, sums{2, 2, 3};
  const Input a = random(shape), b = random(shape);
  const Input lse_a = random(acc(), sums), lse_b = random(acc(), sums);
  const Tensor o = empty(shape), lse = empty(acc(), sums);
  lab->attention_merge(stream, o, lse, View(a), View(lse_a), View(b), View(lse_b));
  const auto among_others = [&](const Values& values) {
    const Tensor whole = lab.full(acc(), {2, 2, 7}, kNaN);
    lab.write(whole.view().slice(2, 2, 3), values);
    return whole;
  };
  const Tensor whole = among_others(lse_a.values), other = among_others(lse_b.values);
  const Tensor o_of_rows = empty(shape);
  lab->attention_merge(stream, o_of_rows, whole.view().slice(2, 2, 3), View(a),
                       whole.view().slice(2, 2, 3), View(b), other.view().slice(2, 2, 3));
  EXPECT_EQ(lab.read(o_of_rows), lab.read(o));
  EXPECT_EQ(lab.read(whole.view().slice(2, 2, 3)), lab.read(lse));
  for (const double gap : lab.read(whole.view().slice(2, 0, 2))) EXPECT_TRUE(std::isnan(gap));
}

TESSERA_KERNEL_SUITE(AttentionMergeTest);

}  // namespace
}  // namespace tessera::test
