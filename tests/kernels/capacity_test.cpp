// Experts with limited capacity against a plain count, and the noise of a router's input.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/kernel_test.h"

namespace tessera::test {
namespace {

using std::int64_t;
using std::size_t;

class CapacityTest : public KernelTest {
 protected:
  struct Pairs {
    Values expert, weight;  // [M, k]
    int64_t k = 2, experts = 4;
  };

  // Rows [first, first + count) of all.
  Values limit(const Pairs& all, int64_t first, int64_t count, const CapacitySpec& spec,
               const SequenceRows& rows) {
    const int64_t total = rows.batch * rows.seq;
    const Tensor expert = lab.tensor(DType::i32, {total, all.k}, all.expert);
    const Tensor weight = lab.tensor(acc(), {total, all.k}, all.weight);
    const Tensor order = empty(DType::i32, {total * all.k});
    const Tensor place = empty(DType::i32, {total, all.k});
    const Tensor offsets = empty(DType::i32, {all.experts + 1});
    lab->sort_by_expert(stream, order, place, offsets, expert.view(), 0);
    const Tensor kept = empty(DType::i32, {count, all.k});
    lab->limit_experts(stream, kept, expert.view(), weight.view(), order.view(), offsets.view(),
                       first, spec, rows);
    return lab.read(kept);
  }
};

// Rank r of R has the chunks r and 2R - 1 - r of every sequence.
std::vector<std::pair<int64_t, int64_t>> samples_and_positions(const SequenceRows& rows) {
  const int64_t ranks = rows.context_ranks, chunk = rows.seq / (2 * ranks);
  std::vector<std::pair<int64_t, int64_t>> all;
  for (int64_t r = 0; r < ranks; ++r)
    for (const int64_t c : {r, 2 * ranks - 1 - r})
      for (int64_t s = c * chunk; s < (c + 1) * chunk; ++s)
        for (int64_t b = 0; b < rows.batch; ++b) all.emplace_back(b, s);
  return all;
}

TEST_P(CapacityTest, TheBestOrTheFirstOfEachSequenceAreKept) {
  for (const SequenceRows& rows : {SequenceRows{1, 6, 1}, SequenceRows{3, 8, 1},
                                   SequenceRows{2, 8, 2}, SequenceRows{1, 48, 4}}) {
    const auto places = samples_and_positions(rows);
    const int64_t total = rows.batch * rows.seq;
    Pairs all{indices({total, 2}, 4).values, {}};
    for (size_t i = 1; i < all.expert.size(); i += 2)
      all.expert[i] = std::fmod(all.expert[i - 1] + 1, 4);
    for (size_t i = 0; i < all.expert.size(); ++i)  // few values: many are equal
      all.weight.push_back(static_cast<double>(i * 7 % 4) / 4);
    for (const DropPolicy policy : {DropPolicy::probs, DropPolicy::position})
      for (const int64_t capacity : {1, 2, 5, 100}) {
        Values want;
        for (size_t i = 0; i < all.expert.size(); ++i) {
          int64_t before = 0;
          for (size_t j = 0; j < all.expert.size(); ++j) {
            if (all.expert[j] != all.expert[i] || places[j / 2].first != places[i / 2].first)
              continue;
            const bool earlier = places[j / 2].second < places[i / 2].second;
            const bool equal = policy == DropPolicy::position || all.weight[j] == all.weight[i];
            before += equal ? earlier : all.weight[j] > all.weight[i];
          }
          want.push_back(before < capacity ? all.expert[i] : -1);
        }
        const CapacitySpec spec{capacity, policy};
        SCOPED_TRACE(testing::Message() << total << " rows, capacity " << capacity);
        EXPECT_EQ(limit(all, 0, total, spec, rows), want);
        EXPECT_EQ(limit(all, 3, 2, spec, rows), Values(want.begin() + 6, want.begin() + 10));
      }
  }
}

// Also without a number for its weight, and if a pair already goes nowhere.
TEST_P(CapacityTest, EveryPairHasAnAnswer) {
  const Pairs all{{0, -1, 0, 1, 0, -1, 0, 1}, {kNaN, 0, 1, 1, .5, 0, kNaN, .5}};
  const Values kept = limit(all, 0, 4, {1, DropPolicy::probs}, {1, 4, 1});
  for (size_t i = 0; i < kept.size(); ++i)
    EXPECT_TRUE(kept[i] == -1 || kept[i] == all.expert[i]) << i;
  EXPECT_EQ(kept[3], 1);
  EXPECT_EQ(kept[7], -1);
}

// Rows that are equal in mathematics may be rounded differently.
TEST_P(CapacityTest, RoundingDoesNotDecide) {
  const double more = acc() == DType::f64 ? 1e-15 : 1e-7;
  const Pairs all{{0, 1, 0, 1, 0, 1, 2, 3}, {.3, .7, .3 + more, .7, .3, .7 + more, .5, .5}};
  EXPECT_EQ(limit(all, 0, 4, {1, DropPolicy::probs}, {1, 4, 1}),
            (Values{0, 1, -1, -1, -1, -1, 2, 3}));
}

TEST_P(CapacityTest, NoiseIsUniformAndOfGlobalCoordinates) {
  const int64_t seq = 40, batch = 2, channels = 130;
  const Tensor x = lab.full(dtype(), {seq * batch, channels}, 1),
               y = empty({seq * batch, channels});
  const Tensor samples = lab.tensor(DType::i64, {batch}, {5, 3});
  NoiseSpec spec{.epsilon = 0.25, .key = 7, .samples = samples.view()};
  lab->multiply_noise(stream, y, x.view(), spec);
  const Values whole = lab.read(y);
  double sum = 0, squares = 0;
  for (const double each : whole) {
    EXPECT_GE(each, 0.75 - 1e-2);
    EXPECT_LE(each, 1.25 + 1e-2);
    sum += each - 1;
    squares += (each - 1) * (each - 1);
  }
  const auto count = static_cast<double>(whole.size());
  EXPECT_NEAR(sum / count, 0, 0.01);
  EXPECT_NEAR(squares / count, 0.25 * 0.25 / 3, 0.002);
  // The second half of the sequence by itself, of the second sample alone.
  const int64_t half = seq / 2;
  const Tensor part = lab.full(dtype(), {half, channels}, 1);
  const Tensor second = lab.tensor(DType::i64, {1}, {3});
  spec.samples = second.view();
  spec.ranges = SequenceRanges(half);
  lab->multiply_noise(stream, part, part.view(), spec);
  const Values got = lab.read(part);
  for (int64_t s = 0; s < half; ++s)
    for (int64_t c = 0; c < channels; ++c)
      ASSERT_EQ(got[static_cast<size_t>(s * channels + c)],
                whole[static_cast<size_t>(((half + s) * batch + 1) * channels + c)]);
}

TESSERA_KERNEL_SUITE(CapacityTest);

}  // namespace
}  // namespace tessera::test
