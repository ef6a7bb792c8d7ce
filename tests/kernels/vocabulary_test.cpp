// Embedding, and cross-entropy over a vocabulary that may be split between ranks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/support/kernel_test.h"
#include "tests/support/reference_ops.h"
#include "tests/support/reference_training.h"

namespace tessera::test {
namespace {

class VocabularyTest : public KernelTest {
 protected:
  // Rank 0 holds the columns [0, cut), rank 1 the rest; the sums between are the ranks'
  // all-reduces.
  struct Split {
    Values loss, left, right;
  };
  Split split_cross_entropy(const Values& logits, const Input& labels, const Input& mask,
                            const TargetSpec& target, std::int64_t cut) {
    const std::int64_t rows = labels.tensor.view().dim(0);
    const std::int64_t columns = static_cast<std::int64_t>(logits.size()) / rows;
    const Input whole = input(dtype(), {rows, columns}, logits);
    const View part[2] = {View(whole).slice(1, 0, cut), View(whole).slice(1, cut, columns - cut)};
    Tensor stats[2];
    Values maximum(static_cast<std::size_t>(rows), -INFINITY);
    for (int rank : {0, 1}) {
      stats[rank] = empty(acc(), {3, rows});
      lab->softmax_stats(stream, stats[rank], part[rank], View(labels),
                         {rank * cut, target.label, target.each});
      const Values own = lab.read(stats[rank].view().slice(0, 0, 1));
      for (std::size_t i = 0; i < own.size(); ++i) maximum[i] = std::max(maximum[i], own[i]);
    }
    const Tensor highest = lab.tensor(acc(), {rows}, maximum);
    for (const Tensor& each : stats) lab->softmax_rescale(stream, each, highest);
    Values sums = lab.read(stats[0]);
    const Values other = lab.read(stats[1]);
    for (std::size_t i = static_cast<std::size_t>(rows); i < sums.size(); ++i) sums[i] += other[i];
    return finish_split(part, labels, mask, lab.tensor(acc(), {3, rows}, sums), target, cut);
  }

 private:
  Split finish_split(const View (&part)[2], const Input& labels, const Input& mask,
                     const Tensor& stats, const TargetSpec& target, std::int64_t cut) {
    const std::int64_t rows = labels.tensor.view().dim(0);
    const Tensor scale = lab.full(DType::f64, {1}, 1.75);
    const Tensor loss = empty(acc(), {rows});
    Values grads[2];
    for (int rank : {0, 1}) {
      const Tensor dlogits = empty(part[rank].shape());
      lab->cross_entropy(stream, loss, dlogits, part[rank], stats, View(labels), View(mask), scale,
                         {rank * cut, target.label, target.each});
      grads[rank] = lab.read(dlogits);
    }
    return {lab.read(loss), grads[0], grads[1]};
  }
};

TEST_P(VocabularyTest, EmbeddingTakesOwnRowsAndLeavesTheOthersZero) {
  for (const std::int64_t c : {1, 9, 70}) {
    const Input table = random({6, c});
    const Input ids = input(DType::i32, {5}, {10, 9, 15, 16, 10});  // rows 10 ... 15 are here
    const Tensor y = empty({5, c});
    lab->embedding_forward(stream, y, View(ids), View(table), 10, false);
    Values expected(static_cast<std::size_t>(5 * c));
    for (std::size_t j = 0; j < static_cast<std::size_t>(c); ++j) {
      const auto width = static_cast<std::size_t>(c);
      expected[j] = expected[4 * width + j] = table.values[j];
      expected[2 * width + j] = table.values[5 * width + j];
    }
    EXPECT_EQ(lab.read(y), expected);
    const Input sum = random({5, c});
    lab->embedding_forward(stream, sum, View(ids), View(table), 10, true);
    for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += sum.values[i];
    expect_values(View(sum), expected);
  }
}

TEST_P(VocabularyTest, EmbeddingReadsAStridedTable) {
  const Input table = random({4, 6});
  const Padded wide = padded({4, 6}, table.values);
  const Input ids = input(DType::i32, {1}, {2});
  const Tensor y = empty({1, 6});
  lab->embedding_forward(stream, y, View(ids), wide.view, 0, false);
  EXPECT_EQ(lab.read(y), Values(table.values.begin() + 12, table.values.begin() + 18));
}

TEST_P(VocabularyTest, EmbeddingGradientsAddUpPerRow) {
  const std::int64_t rows = 40, c = 67, vocabulary = 5, first = 3;
  const Input dy = random({rows, c});
  const Input ids = indices({rows}, vocabulary + 2 * first);  // some lie before, some behind
  Values expected(static_cast<std::size_t>(vocabulary * c));
  for (std::size_t i = 0; i < dy.values.size(); ++i) {
    const auto row = static_cast<std::int64_t>(ids.values[i / c]) - first;
    if (row >= 0 && row < vocabulary)
      expected[static_cast<std::size_t>(row * c) + i % c] += dy.values[i];
  }
  const Tensor dtable = empty({vocabulary, c});
  const Tensor workspace = lab.workspace(lab->embedding_workspace_bytes(rows));
  lab->embedding_backward(stream, dtable, View(dy), View(ids), first, false, workspace);
  expect_values(dtable, expected, 2);
  const Input sum = random(acc(), {vocabulary, c});
  lab->embedding_backward(stream, sum, View(dy), View(ids), first, true, workspace);
  for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += sum.values[i];
  expect_values(View(sum), expected, 2);
}

// Added up one by one in 16 bits, ones would stop counting at 256 or 2048.
TEST_P(VocabularyTest, EmbeddingGradientsAreCarriedInTheAccumulator) {
  const std::int64_t rows = 4096;
  const Tensor dy = lab.full(dtype(), {rows, 2}, 1);
  const Tensor ids = lab.full(DType::i32, {rows}, 1);
  const Tensor dtable = empty({3, 2});
  lab->embedding_backward(stream, dtable, dy, ids, 0, false,
                          lab.workspace(lab->embedding_workspace_bytes(rows)));
  EXPECT_EQ(lab.read(dtable), (Values{0, 0, 4096, 4096, 0, 0}));
}

TEST_P(VocabularyTest, CrossEntropy) {
  for (const std::int64_t rows : {1, 7})
    for (const auto& [columns, smoothing] : {std::pair<std::int64_t, double>{1, 0},
                                             {5, 0},
                                             {131, 0},
                                             {1, 0.1},
                                             {5, 0.1},
                                             {131, 0.3}}) {
      const TargetSpec target{0, 1 - smoothing, smoothing / static_cast<double>(columns)};
      const Input logits = random({rows, columns}, 4);
      const Input labels = indices({rows}, columns);
      const Input mask = random(DType::f32, {rows});
      const Input scale = input(DType::f64, {1}, {1.75});
      Values weights = mask.values;
      for (double& each : weights) each *= 1.75;
      const Tensor stats = empty(acc(), {3, rows});
      const Tensor loss = empty(acc(), {rows});
      lab->softmax_stats(stream, stats, View(logits), View(labels), target);
      lab->cross_entropy(stream, loss, {}, View(logits), stats, View(labels), {}, {}, target);
      const auto expected = reference::cross_entropy(logits.values, labels.values, weights, target);
      const double floor = norm_of(logits.values);
      EXPECT_LE(relative_error(lab.read(loss), expected.loss, floor), tolerance_of(acc()));

      // The gradient may take the logits' place.
      lab->cross_entropy(stream, loss, logits, View(logits), stats, View(labels), View(mask),
                         View(scale), target);
      EXPECT_LE(relative_error(lab.read(View(logits)), expected.dlogits, norm_of(weights)),
                tolerance(2));
    }
}

TEST_P(VocabularyTest, ScaledAndCappedLogits) {
  for (const LogitSpec& spec : {LogitSpec{}, {0.25, 0}, {1, 5}, {3, 2}, {0.125, 30}}) {
    SCOPED_TRACE(spec.softcap);
    const Input raw = random({3, 37}, 4);
    Values expected = raw.values;
    for (double& x : expected) x = reference::scaled_logit(x, spec);
    const Padded logits = padded({3, 37}, raw.values);
    lab->scale_logits(stream, logits, spec);
    expect_values(logits.view, expected, 2);
    expect_gaps_untouched(logits);
  }
}

// The gradient goes on to the raw logits, though the capped ones have taken their place, and its
// own take the place of these.
TEST_P(VocabularyTest, GradientOfScaledAndCappedLogits) {
  const std::int64_t rows = 4, columns = 131;
  for (const LogitSpec& spec : {LogitSpec{0.25, 0}, {1, 5}, {3, 2}}) {
    SCOPED_TRACE(spec.softcap);
    const Input logits = random({rows, columns}, 4);
    lab->scale_logits(stream, logits, spec);
    const Values capped = lab.read(View(logits));
    const Input labels = indices({rows}, columns);
    const Input mask = random(DType::f32, {rows});
    const Tensor scale = lab.full(DType::f64, {1}, 1.75);
    const Tensor stats = empty(acc(), {3, rows});
    const Tensor loss = empty(acc(), {rows});
    Values weights = mask.values;
    for (double& each : weights) each *= 1.75;
    const auto expected = reference::cross_entropy(capped, labels.values, weights, {0});
    lab->softmax_stats(stream, stats, View(logits), View(labels), {0});
    lab->cross_entropy(stream, loss, logits, View(logits), stats, View(labels), View(mask), scale,
                       {0}, spec);
    EXPECT_LE(relative_error(lab.read(loss), expected.loss, norm_of(capped)), tolerance_of(acc()));
    const auto with_slope = [&](double d, double y) { return d * reference::logit_slope(y, spec); };
    EXPECT_LE(relative_error(lab.read(View(logits)),
                             reference::each(expected.dlogits, capped, with_slope),
                             spec.scale * norm_of(weights)),
              tolerance(2));
  }
}

TEST_P(VocabularyTest, LogitsAtTheCapHaveNoSlope) {
  const LogitSpec spec{1, 3.3};  // in 16 bits the cap itself is rounded
  const Tensor logits = lab.tensor(dtype(), {1, 3}, {1e4, -1e4, 0});
  lab->scale_logits(stream, logits, spec);
  expect_values(logits, {3.3, -3.3, 0}, 2);
  const Tensor stats = empty(acc(), {3, 1}), loss = empty(acc(), {1});
  const Tensor labels = lab.full(DType::i32, {1}, 1);
  lab->softmax_stats(stream, stats, logits, labels, {0});
  lab->cross_entropy(stream, loss, logits, logits, stats, labels, lab.full(DType::f32, {1}, 1),
                     lab.full(DType::f64, {1}, 1), {0}, spec);
  const Values gradient = lab.read(logits);
  EXPECT_NEAR(gradient[0], 0, 0.02);
  EXPECT_GE(gradient[0], 0) << "not past the cap";
  EXPECT_NEAR(gradient[1], 0, 0.02);
  EXPECT_LE(gradient[1], 0) << "not past the cap";
  EXPECT_GT(gradient[2], 0);
}

TEST_P(VocabularyTest, StatsAreTheMaximumTheSumAndTheLabel) {
  const Input logits = input(dtype(), {2, 3}, {1, 3, 2, -4, -4, -4});
  const Input labels = input(DType::i32, {2}, {12, 5});  // columns 10 ... 12 are here
  const Tensor stats = empty(acc(), {3, 2});
  lab->softmax_stats(stream, stats, View(logits), View(labels), {10});
  expect_values(stats, {3, -4, std::exp(-2) + 1 + std::exp(-1), 3, 2, 0});
  lab->softmax_rescale(stream, stats, lab.tensor(acc(), {2}, {4, -4}));
  expect_values(stats, {4, -4, std::exp(-3) + std::exp(-1) + std::exp(-2), 3, 2, 0}, 4);
}

TEST_P(VocabularyTest, RanksTogetherGiveWhatOneGives) {
  const std::int64_t rows = 9, columns = 37;
  const Values logits = random({rows, columns}, 4).values;
  const Input labels = indices({rows}, columns);
  const Input mask = random(DType::f32, {rows});
  Values weights = mask.values;
  for (double& each : weights) each *= 1.75;
  const TargetSpec target{0, 0.75, 0.25 / columns};
  const auto expected = reference::cross_entropy(logits, labels.values, weights, target);
  for (const std::int64_t cut : {37, 20, 1, 0}) {  // 37 and 0: one rank holds padding alone
    const Split got = split_cross_entropy(logits, labels, mask, target, cut);
    expect_close(got.loss, expected.loss, 4 * tolerance_of(acc()));
    Values grads;
    for (std::int64_t i = 0; i < rows; ++i) {
      grads.insert(grads.end(), got.left.begin() + i * cut, got.left.begin() + (i + 1) * cut);
      const std::int64_t rest = columns - cut;
      grads.insert(grads.end(), got.right.begin() + i * rest, got.right.begin() + (i + 1) * rest);
    }
    expect_close(grads, expected.dlogits, tolerance(4));
  }
}

TEST_P(VocabularyTest, ZeroMaskGivesZeroGradient) {
  const Input logits = random({2, 9});
  const Input labels = indices({2}, 9);
  const Input mask = input(DType::f32, {2}, {0, 1});
  const Tensor stats = empty(acc(), {3, 2});
  const Tensor loss = empty(acc(), {2});
  lab->softmax_stats(stream, stats, View(logits), View(labels), {0});
  lab->cross_entropy(stream, loss, logits, View(logits), stats, View(labels), View(mask),
                     lab.full(DType::f64, {1}, 1), {0});
  EXPECT_EQ(lab.read(View(logits).slice(0, 0, 1)), Values(9, 0.0));
  EXPECT_GT(norm_of(lab.read(View(logits).slice(0, 1, 1))), 0);
  EXPECT_GT(lab.read(loss)[0], 0) << "the loss itself is not masked";
}

TEST_P(VocabularyTest, MaskedSum) {
  const Input x = random(acc(), {1001});
  const Input mask = random(DType::f32, {1001});
  double expected = 0;
  for (std::size_t i = 0; i < 1001; ++i) expected += x.values[i] * mask.values[i];
  const Tensor out = lab.full(DType::f64, {1}, -55);
  lab->masked_sum(stream, out, View(x), View(mask), false);
  EXPECT_NEAR(lab.read(out)[0], expected, 1e-12);
  lab->masked_sum(stream, out, View(x), View(mask), true);
  EXPECT_NEAR(lab.read(out)[0], 2 * expected, 1e-12);
}

TESSERA_KERNEL_SUITE(VocabularyTest);

}  // namespace
}  // namespace tessera::test
