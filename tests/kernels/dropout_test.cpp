// Dropout: what is kept depends on global coordinates alone, never on the local layout.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/attention_run.h"
#include "tests/support/kernel_test.h"

namespace tessera::test {
namespace {

class DropoutTest : public KernelTest {
 protected:
  // dropout(ones): 0 or 1 / (1 - p) for each element of [positions, samples, channels].
  Values mask(std::int64_t positions, const Values& samples, std::int64_t channels,
              const SequenceRanges& ranges = {}, RngKey key = 5, double p = 0.5,
              std::int64_t channel_start = 0) {
    const auto batch = static_cast<std::int64_t>(samples.size());
    const Tensor ones = lab.full(dtype(), {positions * batch, channels}, 1);
    const Tensor y = empty({positions * batch, channels});
    const Input numbers = input(DType::i64, {batch}, samples);
    lab->add_dropout(stream, y, {}, ones, {p, key, View(numbers), ranges, channel_start});
    return lab.read(y);
  }
  // The mask of the probabilities [S, B, H, T], seen through keys and values that make it the
  // output: all scores are equal, and v is the unit matrix.
  Values attention_mask(const AttentionCase& c) {
    reference::AttentionInputs x{
        random(c.q_shape()).values, Values(static_cast<std::size_t>(c.k_shape().numel()), 0), {}};
    for (std::int64_t row = 0; row < c.T * c.B * c.K; ++row)
      for (std::int64_t d = 0; d < c.D; ++d) x.v.push_back(row / (c.B * c.K) == d ? 1 : 0);
    AttentionRun run(lab, c, dtype(), x);
    run.forward();
    Values o = lab.read(run.o.view);
    for (double& each : o) each = each > 0;
    return o;
  }
};

TEST_P(DropoutTest, KeepsTheRightShareAndScalesIt) {
  for (const double p : {0.1, 0.5, 0.9}) {
    const Values kept = mask(100, {1, 2, 3, 4}, 250, 0, 5, p);
    const auto n = static_cast<double>(kept.size());
    double count = 0;
    for (const double each : kept) {
      ASSERT_TRUE(each == 0 || each == rounded(dtype(), 1 / (1 - p))) << each;
      count += each != 0;
    }
    // Five standard deviations of a binomial count.
    EXPECT_NEAR(count / n, 1 - p, 5 * std::sqrt(p * (1 - p) / n));
  }
}

TEST_P(DropoutTest, NeighboursAreIndependent) {
  const std::size_t channels = 250;
  const Values kept = mask(400, {1}, 250);
  for (const std::size_t distance : {std::size_t{1}, std::size_t{4}, channels}) {
    double both = 0;
    for (std::size_t i = distance; i < kept.size(); ++i)
      both += kept[i] != 0 && kept[i - distance] != 0;
    const auto n = static_cast<double>(kept.size() - distance);
    EXPECT_NEAR(both / n, 0.25, 5 * std::sqrt(0.25 * 0.75 / n)) << "distance " << distance;
  }
}

TEST_P(DropoutTest, SamplesPositionsAndKeysDiffer) {
  const Values one = mask(20, {1}, 16);
  EXPECT_NE(one, mask(20, {2}, 16));
  EXPECT_NE(one, mask(20, {1 + 4294967296.0}, 16)) << "the upper half of a sample number counts";
  EXPECT_NE(one, mask(20, {1}, 16, 1));
  EXPECT_NE(one, mask(20, {1}, 16, 0, 6));
  EXPECT_EQ(one, mask(20, {1}, 16));
}

TEST_P(DropoutTest, TwoRangesOfThePositionsDrawTheSame) {
  const Values whole = mask(12, {7, 8}, 10);
  constexpr std::ptrdiff_t kPosition = 20;  // two samples of ten channels
  Values expected(whole.begin() + 1 * kPosition, whole.begin() + 4 * kPosition);
  expected.insert(expected.end(), whole.begin() + 9 * kPosition, whole.begin() + 11 * kPosition);
  EXPECT_EQ(mask(5, {7, 8}, 10, SequenceRanges(1, 3, 9)), expected);
}

TEST_P(DropoutTest, ASliceOfThePositionsDrawsTheSame) {
  const Values whole = mask(12, {7, 8}, 10);
  constexpr std::ptrdiff_t kPosition = 20;  // two samples of ten channels
  EXPECT_EQ(mask(5, {7, 8}, 10, 4),
            Values(whole.begin() + 4 * kPosition, whole.begin() + 9 * kPosition));
}

TEST_P(DropoutTest, ASliceOfTheChannelsDrawsTheSame) {
  const Values whole = mask(3, {7, 8}, 40);
  for (const std::int64_t first : {8, 6, 5, 3})
    for (const std::int64_t channels : {1, 2, 7, 16}) {
      const Values part = mask(3, {7, 8}, channels, 0, 5, 0.5, first);
      for (std::size_t i = 0; i < part.size(); ++i) {
        const auto width = static_cast<std::size_t>(channels);
        const std::size_t channel = static_cast<std::size_t>(first) + i % width;
        ASSERT_EQ(part[i], whole[i / width * 40 + channel]) << first << " " << channels;
      }
    }
}

TEST_P(DropoutTest, AnotherOrderOfSamplesDrawsTheSame) {
  const Values both = mask(3, {7, 8}, 10);
  const Values swapped = mask(3, {8, 7}, 10);
  const Values alone = mask(3, {8}, 10);
  for (std::size_t position = 0; position < 3; ++position)
    for (std::size_t c = 0; c < 10; ++c) {
      EXPECT_EQ(both[position * 20 + c], swapped[position * 20 + 10 + c]);
      EXPECT_EQ(swapped[position * 20 + c], alone[position * 10 + c]);
    }
}

TEST_P(DropoutTest, WiderRowsStartWithTheSameChannels) {
  const Values narrow = mask(1, {3}, 7);
  const Values wide = mask(1, {3}, 9);
  EXPECT_EQ(narrow, Values(wide.begin(), wide.begin() + 7));
}

TEST_P(DropoutTest, TheGradientHasTheSameMask) {
  const Input x = random({6, 11});
  const Input samples = input(DType::i64, {2}, {3, 4});
  const DropoutSpec spec{0.5, 5, View(samples), 2};
  const Tensor y = empty({6, 11});
  lab->add_dropout(stream, y, {}, View(x), spec);
  const Values kept = mask(3, {3, 4}, 11, 2);
  for (std::size_t i = 0; i < kept.size(); ++i) EXPECT_EQ(lab.read(y)[i], x.values[i] * kept[i]);
}

TEST_P(DropoutTest, AddsTheResidualUndropped) {
  const Input x = random({4, 5});
  const Input branch = random({4, 5});
  const Input samples = input(DType::i64, {1}, {3});
  const Tensor y = empty({4, 5});
  lab->add_dropout(stream, y, View(x), View(branch), {0.5, 5, View(samples), 0});
  Values expected = mask(4, {3}, 5);
  for (std::size_t i = 0; i < 20; ++i) expected[i] = x.values[i] + branch.values[i] * expected[i];
  expect_values(y, expected);
  lab->add_dropout(stream, branch, View(x), View(branch), {0.5, 5, View(samples), 0});
  EXPECT_EQ(lab.bytes(branch), lab.bytes(y)) << "y may be the branch";
}

TEST_P(DropoutTest, ScalesWhatItKeeps) {
  const Input x = random({4, 5});
  const Input branch = random({4, 5});
  const Input samples = input(DType::i64, {1}, {3});
  Values quarter = branch.values;
  for (double& each : quarter) each /= 4;
  const Input smaller = input(dtype(), {4, 5}, quarter);
  const Tensor got = empty({4, 5}), want = empty({4, 5});
  for (const double p : {0.0, 0.5})
    for (const bool added : {false, true}) {
      DropoutSpec spec{p, 5, View(samples)};
      const View residual = added ? View(x) : View();
      lab->add_dropout(stream, want, residual, View(smaller), spec);
      spec.scale = 0.25;
      lab->add_dropout(stream, got, residual, View(branch), spec);
      EXPECT_EQ(lab.bytes(got), lab.bytes(want)) << p << " " << added;
    }
}

// A rank's part of heads, queries, keys and samples must draw what one rank would for them.
TEST_P(DropoutTest, APartOfAttentionDrawsTheSame) {
  const AttentionCase whole{.name = "whole",
                            .S = 10,
                            .T = 12,
                            .B = 2,
                            .H = 4,
                            .K = 2,
                            .D = 12,
                            .causal = false,
                            .p = 0.5,
                            .samples = {20, 21}};
  AttentionCase part = whole;
  part.S = 3;
  part.q_start = 5;
  part.T = 6;
  part.kv_start = 2;
  part.H = 2;
  part.K = 1;
  part.head_start = 2;
  part.samples = {21, 20};
  const Values all = attention_mask(whole);
  const Values some = attention_mask(part);
  for (std::int64_t s = 0; s < part.S; ++s)
    for (std::int64_t b = 0; b < 2; ++b)
      for (std::int64_t h = 0; h < part.H; ++h)
        for (std::int64_t t = 0; t < part.T; ++t)
          ASSERT_EQ(some[part.q_at(s, b, h) + static_cast<std::size_t>(t)],
                    all[whole.q_at(s + 5, 1 - b, h + 2) + static_cast<std::size_t>(t + 2)]);
}

TEST_P(DropoutTest, AttentionKeepsTheRightShare) {
  const Values kept = attention_mask({.name = "share",
                                      .S = 64,
                                      .T = 64,
                                      .B = 2,
                                      .H = 4,
                                      .K = 1,
                                      .D = 64,
                                      .causal = false,
                                      .p = 0.25,
                                      .samples = {1, 2}});
  double count = 0;
  for (const double each : kept) count += each;
  const auto n = static_cast<double>(kept.size());
  EXPECT_NEAR(count / n, 0.75, 5 * std::sqrt(0.25 * 0.75 / n));
}

TESSERA_KERNEL_SUITE(DropoutTest);

}  // namespace
}  // namespace tessera::test
