// The router of a mixture of experts: by hand, against plain formulas in double, and its gradient
// against differences of these.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tessera/kernels/step_state.h"
#include "tests/support/kernel_test.h"

namespace tessera::test {
namespace {

using std::int64_t;
using std::size_t;

double log_sum_exp(const Values& l) {
  double sum = 0;
  for (const double each : l) sum += std::exp(each);
  return std::log(sum);
}

Values scores_of(const Values& l, const RouterSpec& spec) {
  Values s;
  for (const double each : l)
    s.push_back(spec.score == RouterScore::sigmoid ? 1 / (1 + std::exp(-each))
                                                   : std::exp(each - log_sum_exp(l)));
  return s;
}

// Numbers by descending values, equal ones in order.
std::vector<size_t> ranking(const Values& values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return values[a] > values[b]; });
  return order;
}

Values chosen_of(Values s, const Values& bias, const RouterSpec& spec) {
  for (size_t i = 0; i < bias.size(); ++i) s[i] += bias[i];
  const size_t groups = static_cast<size_t>(spec.groups), size = s.size() / groups;
  Values of_group;
  for (size_t g = 0; g < groups; ++g) {
    Values members(s.begin() + static_cast<int64_t>(g * size),
                   s.begin() + static_cast<int64_t>((g + 1) * size));
    std::ranges::sort(members, std::greater<>());
    of_group.push_back(std::accumulate(members.begin(), members.begin() + spec.group_best, 0.0));
  }
  std::vector<bool> eligible(groups, false);
  for (size_t j = 0; j < static_cast<size_t>(spec.group_topk); ++j)
    eligible[ranking(of_group)[j]] = true;
  for (size_t i = 0; i < s.size(); ++i)
    if (!eligible[i / size]) s[i] = -1e300;
  Values chosen;
  for (size_t j = 0; j < static_cast<size_t>(spec.topk); ++j)
    chosen.push_back(static_cast<double>(ranking(s)[j]));
  return chosen;
}

Values weights_of(const Values& s, const Values& chosen, const RouterSpec& spec) {
  double sum = 0;
  for (const double e : chosen) sum += s[static_cast<size_t>(e)];
  Values w;
  for (const double e : chosen)
    w.push_back(spec.scale * s[static_cast<size_t>(e)] / (spec.normalize ? sum : 1));
  return w;
}

Values balance_of(Values s) {
  const double sum = std::accumulate(s.begin(), s.end(), 0.0);
  for (double& each : s) each /= sum;
  return s;
}

Values row_of(const Values& all, int64_t row, int64_t width) {
  return {all.begin() + row * width, all.begin() + (row + 1) * width};
}

std::vector<RouterSpec> all_specs() {
  std::vector<RouterSpec> specs;
  for (const RouterScore score : {RouterScore::softmax, RouterScore::sigmoid})
    for (const bool normalize : {false, true}) {
      specs.push_back({1, score, normalize, 1.0});
      specs.push_back({3, score, normalize, 2.5});
      specs.push_back({8, score, normalize, 1.0});  // all experts
      specs.push_back({2, score, normalize, 1.0, 4, 2, 1});
      specs.push_back({3, score, normalize, 2.5, 2, 1, 2});
      specs.push_back({4, score, normalize, 1.0, 4, 2, 2});
    }
  return specs;
}

class RouterTest : public KernelTest {
 protected:
  struct Result {
    Values expert, weight, scores;
  };
  Result route(const Values& logits, int64_t experts, const RouterSpec& spec,
               const Values& bias = {}) {
    const int64_t rows = std::ssize(logits) / experts;
    const Tensor expert = empty(DType::i32, {rows, spec.topk});
    const Tensor weight = empty(acc(), {rows, spec.topk}), scores = empty(acc(), {rows, experts});
    const Tensor input = lab.tensor(acc(), {rows, experts}, logits);
    const Tensor plus = lab.tensor(acc(), {experts}, bias.empty() ? Values(experts, 0.0) : bias);
    lab->route(stream, expert, weight, scores, input,
               bias.empty() ? ConstView() : ConstView(plus.view()), spec);
    return {lab.read(expert), lab.read(weight), lab.read(scores)};
  }
  const double tight_ = 2e-6;
};

TEST_P(RouterTest, PublishedForms) {
  const Values logits{1, .5, -.5, 2, 0, 1.5, -1, .25};
  Result r = route(logits, 8, {.topk = 2});
  EXPECT_EQ(r.expert, (Values{3, 5}));
  expect_close(r.weight, {.379000, .229875}, 1e-5, "softmax over all");
  // DeepSeek-V2: the groups of the two best experts; weights as they are, times a factor.
  r = route(logits, 8, {2, RouterScore::softmax, false, 16.0, 4, 2, 1});
  EXPECT_EQ(r.expert, (Values{3, 5}));
  expect_close(r.weight, {16 * .379000, 16 * .229875}, 1e-4, "softmax, in groups");
  r = route(logits, 8, {2, RouterScore::softmax, false, 1.0, 4, 1, 1});
  EXPECT_EQ(r.expert, (Values{3, 2})) << "both of one group";
  r = route(logits, 8, {.topk = 2, .normalize = true});
  expect_close(r.weight, {.622459, .377541}, 2e-6, "softmax over the chosen");
  // DeepSeek-V3: groups by their two best, with a bias; weights without it.
  const RouterSpec v3{2, RouterScore::sigmoid, true, 2.5, 4, 2, 2};
  r = route(logits, 8, v3, {0, 0, .3, 0, 0, -.2, .4, 0});
  EXPECT_EQ(r.expert, (Values{3, 0}));
  expect_close(r.weight, {1.366123, 1.133877}, 2e-6, "sigmoid");
}

TEST_P(RouterTest, ChoiceAndWeights) {
  const int64_t rows = 60, experts = 8;
  for (const RouterSpec& spec : all_specs())
    for (const bool biased : {false, true}) {
      SCOPED_TRACE(testing::Message() << spec.topk << " of " << spec.groups << " groups, score "
                                      << static_cast<int>(spec.score) << (biased ? " bias" : ""));
      const Values logits = random(acc(), {rows, experts}).values;
      const Values bias = biased ? random(acc(), {experts}, 0.2).values : Values{};
      const Result got = route(logits, experts, spec, bias);
      for (int64_t i = 0; i < rows; ++i) {
        const Values s = scores_of(row_of(logits, i, experts), spec);
        const Values chosen = chosen_of(s, bias, spec);
        ASSERT_EQ(row_of(got.expert, i, spec.topk), chosen);
        expect_close(row_of(got.weight, i, spec.topk), weights_of(s, chosen, spec), tight_, "w");
        expect_close(row_of(got.scores, i, experts), s, tight_, "scores");
      }
    }
}

// Of equal scores the lower number comes first, and NaN last; a choice always exists.
TEST_P(RouterTest, TiesAndNaN) {
  EXPECT_EQ(route({2, 7, 7, 7}, 4, {.topk = 2}).expert, (Values{1, 2}));
  EXPECT_EQ(route({1, 1, 1, 1}, 4, {.topk = 3}).expert, (Values{0, 1, 2}));
  const RouterSpec sigmoid{2, RouterScore::sigmoid};
  EXPECT_EQ(route({kNaN, 1, 2, 3}, 4, sigmoid).expert, (Values{3, 2}));
  EXPECT_EQ(route({kNaN, kNaN, kNaN, kNaN}, 4, sigmoid).expert, (Values{0, 1}));
  EXPECT_EQ(route({-1000, 0, 1000, 5}, 4, {.topk = 1}).weight, (Values{1}));
  // All scores 0: the weights must not be NaN.
  const RouterSpec normalized{2, RouterScore::sigmoid, true};
  EXPECT_EQ(route({-1000, -1000, -1000, -1000}, 4, normalized).weight, (Values{0, 0}));
}

TEST_P(RouterTest, GradientsAreDifferences) {
  const int64_t rows = 6, experts = 8, groups = 2;
  for (const RouterSpec& spec : all_specs()) {
    SCOPED_TRACE(testing::Message() << spec.topk << " of " << spec.groups << " groups, score "
                                    << static_cast<int>(spec.score) << spec.normalize);
    const Input logits = random(acc(), {rows, experts});
    const Input dweight = random(acc(), {rows, spec.topk});
    const Input dbalance = random(acc(), {groups, experts});
    const double z = 0.3;
    const Result forward = route(logits.values, experts, spec);
    const Tensor expert = lab.tensor(DType::i32, {rows, spec.topk}, forward.expert);
    const Tensor scores = lab.tensor(acc(), {rows, experts}, forward.scores);
    const Tensor got = empty({rows, experts}), factor = lab.full(DType::f64, {1}, z);
    lab->route_backward(stream, got, expert.view(), scores.view(),
                        {View(dweight), View(dbalance), factor.view(), View(logits)}, spec);
    const auto loss = [&](const Values& l, int64_t i) {
      const Values s = scores_of(l, spec);
      const Values w = weights_of(s, row_of(forward.expert, i, spec.topk), spec);
      const Values p = balance_of(s);
      double sum = z * log_sum_exp(l) * log_sum_exp(l);
      for (size_t j = 0; j < w.size(); ++j)
        sum += w[j] * dweight.values[static_cast<size_t>(i * spec.topk) + j];
      for (size_t e = 0; e < p.size(); ++e)
        sum += p[e] * dbalance.values[static_cast<size_t>(i % groups * experts) + e];
      return sum;
    };
    Values want;
    for (int64_t i = 0; i < rows; ++i)
      for (size_t e = 0; e < static_cast<size_t>(experts); ++e) {
        Values up = row_of(logits.values, i, experts), down = up;
        up[e] += 1e-5;
        down[e] -= 1e-5;
        want.push_back((loss(up, i) - loss(down, i)) / 2e-5);
      }
    EXPECT_LE(relative_error(lab.read(got), want), std::max(1e-6, tolerance(3)));
  }
}

// Two sequences of two rows each, and all rows as one group.
TEST_P(RouterTest, BalanceOfPublishedNumbers) {
  const Values logits{2, 1, 0, -1, 0, 2, 1, -1, 1, 1.5, 0, 0, -1, 0, 3, 1};
  const RouterSpec spec{.topk = 2};
  const Result forward = route(logits, 4, spec);
  const Tensor expert = lab.tensor(DType::i32, {4, 2}, forward.expert);
  const Tensor scores = lab.tensor(acc(), {4, 4}, forward.scores);
  const Tensor one = lab.full(DType::f64, {1}, 1), loss = lab.full(DType::f64, {1}, 0);
  const auto run = [&](int64_t groups, double factor, const Tensor& dbalance, bool accumulate) {
    const Tensor counts = empty(DType::f64, {groups, 4}), sums = empty(DType::f64, {groups, 4});
    lab->router_load(stream, counts, sums, expert.view(), scores.view(), spec);
    lab->balance_loss(stream, loss, dbalance, counts.view(), sums.view(), one.view(), factor, 1,
                      accumulate);
    return lab.read(counts);
  };
  const Tensor whole = empty(acc(), {1, 4});
  EXPECT_EQ(run(1, 4.0 / (2 * 16), whole, false), (Values{2, 3, 2, 1}));
  expect_close(lab.read(loss), {1.14050488}, 1e-6, "of all rows");
  const Tensor dlogits = empty({4, 4}), no_weights = lab.full(acc(), {4, 2}, 0);
  lab->route_backward(stream, dlogits, expert.view(), scores.view(),
                      {no_weights.view(), whole.view(), {}, {}}, spec);
  expect_close(row_of(lab.read(dlogits), 0, 4), {-.01648615, .02354544, -.00223116, -.00482812},
               std::max(2e-6, tolerance()), "gradient");
  // Added to what is there, once for each of two sequences; rows 0 and 2 are one sequence.
  const Values before = lab.read(whole);
  const Tensor both = lab.full(acc(), {2, 4}, 1);
  run(1, 4.0 / (2 * 16), both, true);
  for (size_t i = 0; i < 8; ++i) EXPECT_NEAR(lab.read(both)[i], 1 + before[i % 4], 1e-6);
  EXPECT_EQ(run(2, 1, both, false), (Values{2, 2, 0, 0, 0, 1, 2, 1}));
}

// The same rows as two sequences of two tokens, sequence-first: the mean of the losses of sequences
// is not the loss of all tokens.
TEST_P(RouterTest, BalanceOfSequencesOfPublishedNumbers) {
  const Values logits{2, 1, 0, -1, 1, 1.5, 0, 0, 0, 2, 1, -1, -1, 0, 3, 1};
  const RouterSpec spec{.topk = 2};
  const Result forward = route(logits, 4, spec);
  const Tensor expert = lab.tensor(DType::i32, {4, 2}, forward.expert);
  const Tensor scores = lab.tensor(acc(), {4, 4}, forward.scores);
  const Tensor one = lab.full(DType::f64, {1}, 1), loss = lab.full(DType::f64, {1}, 0);
  const Tensor counts = empty(DType::f64, {2, 4}), sums = empty(DType::f64, {2, 4});
  const Tensor dbalance = empty(acc(), {2, 4});
  lab->router_load(stream, counts, sums, expert.view(), scores.view(), spec);
  lab->balance_loss(stream, loss, dbalance, counts.view(), sums.view(), one.view(),
                    4.0 / (2 * 2 * 2), 1, false);
  EXPECT_NEAR(lab.read(loss)[0] / 2, 1.20416997, 1e-6);
}

TEST_P(RouterTest, ZLossOfPublishedNumbers) {
  const Values logits{2, 1, 0, -1, 0, 2, 1, -1, 1, 1.5, 0, 0, -1, 0, 3, 1};
  const Tensor scale = lab.full(DType::f64, {1}, 8), z = lab.full(DType::f64, {1}, kNaN);
  const Tensor loss = lab.full(DType::f64, {1}, 2);
  lab->router_z_loss(stream, loss, z, lab.tensor(acc(), {4, 4}, logits), scale.view(), 0.25, 1e-3);
  expect_close(lab.read(loss), {2 + 6.74482221}, 1e-6, "loss");
  expect_close(lab.read(z), {8 * 0.25e-3}, 1e-12, "factor of the gradient");
}

// More rows and experts than a block of threads has.
TEST_P(RouterTest, LoadOfManyRows) {
  const int64_t rows = 700, experts = 70, groups = 3;
  const RouterSpec spec{.topk = 5};
  const Values logits = random(acc(), {rows, experts}).values;
  const Result forward = route(logits, experts, spec);
  const Tensor expert = lab.tensor(DType::i32, {rows, 5}, forward.expert);
  const Tensor scores = lab.tensor(acc(), {rows, experts}, forward.scores);
  const Tensor counts = empty(DType::f64, {groups, experts});
  const Tensor sums = empty(DType::f64, {groups, experts});
  lab->router_load(stream, counts, sums, expert.view(), scores.view(), spec);
  Values want_counts(static_cast<size_t>(groups * experts), 0.0), want_sums = want_counts;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t e = 0; e < experts; ++e) {
      const auto at = static_cast<size_t>(i % groups * experts + e);
      want_sums[at] += forward.scores[static_cast<size_t>(i * experts + e)];
      for (int64_t j = 0; j < 5; ++j)
        want_counts[at] += forward.expert[static_cast<size_t>(i * 5 + j)] == static_cast<double>(e);
    }
  EXPECT_EQ(lab.read(counts), want_counts);
  EXPECT_LE(relative_error(lab.read(sums), want_sums), 1e-6);
}

// More pairs than a block of threads counts, and a layer that was never used.
TEST_P(RouterTest, CountsAndStatisticsOfExperts) {
  const int64_t rows = 3000, experts = 70;
  const Values chosen = route(random(acc(), {rows, experts}).values, experts, {.topk = 2}).expert;
  const Tensor counts = lab.full(DType::f64, {experts}, 1);
  lab->count_experts(stream, counts, lab.tensor(DType::i32, {rows, 2}, chosen).view());
  Values want(static_cast<size_t>(experts), 1.0);
  for (const double each : chosen) ++want[static_cast<size_t>(each)];
  EXPECT_EQ(lab.read(counts), want);
  const Tensor layers = lab.tensor(DType::f64, {3, 4}, {2, 3, 2, 1, 0, 0, 0, 0, 4, 4, 4, 4});
  const Tensor out = lab.full(DType::f64, {3}, kNaN);
  lab->expert_statistics(stream, out, layers.view(), {}, 0.5);
  const double entropy =
      (2 * 0.25 * std::log(4.0) + 0.375 * std::log(8.0 / 3) + 0.125 * std::log(8.0)) /
      std::log(4.0);
  const double imbalance = 0.5 * (1.5 + 1), evenness = 0.5 * (entropy + 1);
  expect_close(lab.read(out), {imbalance, evenness, 0}, 1e-12, "means");
  const Tensor kept = lab.tensor(DType::f64, {3, 4}, {2, 2, 2, 0, 0, 0, 0, 0, 4, 0, 4, 4});
  lab->expert_statistics(stream, out, layers.view(), kept.view(), 0.5);
  expect_close(lab.read(out), {imbalance, evenness, 0.5 * (0.25 + 0.25)}, 1e-12, "with capacity");
}

TEST_P(RouterTest, PairsWithoutAnExpertAreNotCounted) {
  const Tensor counts = lab.full(DType::f64, {3}, 0);
  lab->count_experts(stream, counts, lab.tensor(DType::i32, {3, 2}, {2, -1, -1, -1, 2, 0}).view());
  EXPECT_EQ(lab.read(counts), (Values{1, 0, 2}));
}

// Whatever the scores are, but weights are those of the experts that a row goes to.
TEST_P(RouterTest, ForcedBalance) {
  const Values logits = random(acc(), {6, 4}).values;
  const RouterSpec spec{.topk = 2, .forced_balance = true};
  const Result r = route(logits, 4, spec);
  EXPECT_EQ(r.expert, (Values{0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3}));
  for (int64_t i = 0; i < 6; ++i) {
    const Values s = scores_of(row_of(logits, i, 4), spec);
    expect_close(row_of(r.weight, i, 2), weights_of(s, row_of(r.expert, i, 2), spec), tight_, "w");
  }
}

TEST_P(RouterTest, BiasMovesTowardsEqualUse) {
  const Tensor bias = lab.full(acc(), {4}, 0.5);
  const Tensor counts = lab.tensor(DType::f64, {4}, {2, 3, 2, 1});
  const Tensor state = lab.full(DType::u8, {sizeof(StepState)}, 0);
  const auto update = [&](std::int64_t skipped) {
    const StepState now{.skipped = skipped};
    stream.api().copy_bytes(stream.native(), state.view().raw(), &now, sizeof(now));
    lab->update_expert_bias(stream, bias, counts.view(), state.view(), 0.25);
    stream.synchronize();
    return lab.read(bias);
  };
  EXPECT_EQ(update(1), (Values{0.5, 0.5, 0.5, 0.5})) << "a skipped step";
  EXPECT_EQ(update(0), (Values{0.5, 0.25, 0.5, 0.75}));
}

TEST_P(RouterTest, SharesAreRelativeToTheMean) {
  const Tensor shares = lab.full(acc(), {4}, 1);
  const Tensor state = lab.full(DType::u8, {sizeof(StepState)}, 0);
  const auto set = [&](const Values& counts, std::int64_t skipped) {
    const StepState now{.skipped = skipped};
    stream.api().copy_bytes(stream.native(), state.view().raw(), &now, sizeof(now));
    lab->set_expert_shares(stream, shares, lab.tensor(DType::f64, {4}, counts).view(),
                           state.view());
    stream.synchronize();
    return lab.read(shares);
  };
  EXPECT_EQ(set({2, 3, 2, 1}, 1), (Values{1, 1, 1, 1})) << "a skipped step";
  EXPECT_EQ(set({2, 3, 2, 1}, 0), (Values{1, 1.5, 1, 0.5}));
  EXPECT_EQ(set({0, 0, 0, 0}, 0), (Values{1, 1.5, 1, 0.5})) << "nothing was counted";
}

TESSERA_KERNEL_SUITE(RouterTest);

}  // namespace
}  // namespace tessera::test
