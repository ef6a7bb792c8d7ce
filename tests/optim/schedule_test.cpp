// Learning-rate schedules against numbers computed by an independent script of Megatron's formulas.
#include "tessera/optim/schedule.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace tessera {
namespace {

constexpr std::int64_t kBatch = 4;

ScheduleOptions base() {
  ScheduleOptions options;
  options.lr = 1e-3;
  options.min_lr = 1e-5;
  options.lr_warmup_init = 1e-6;
  options.warmup_iters = 10;
  options.decay_iters = 100;
  return options;
}

void expect_rates(const ScheduleOptions& options, const std::vector<std::int64_t>& iterations,
                  const std::vector<double>& rates) {
  for (std::size_t i = 0; i < rates.size(); ++i)
    EXPECT_NEAR(learning_rate(options, kBatch, iterations[i] * kBatch), rates[i], 1e-15)
        << iterations[i];
}

const std::vector<std::int64_t> kIterations{0, 5, 10, 11, 37, 99, 100, 101, 150};

// Lengths in samples are the same as in iterations of batches of that size.
TEST(Schedule, CountsInSamples) {
  for (const DecayStyle style : {DecayStyle::linear, DecayStyle::cosine, DecayStyle::wsd}) {
    ScheduleOptions iterations = base();
    iterations.decay_style = style;
    iterations.wsd_decay_iters = style == DecayStyle::wsd ? 30 : 0;
    ScheduleOptions samples = iterations;
    samples.decay_samples = kBatch * std::exchange(samples.decay_iters, 0);
    samples.warmup_samples = kBatch * std::exchange(samples.warmup_iters, 0);
    samples.wsd_decay_samples = kBatch * std::exchange(samples.wsd_decay_iters, 0);
    for (const std::int64_t i : {0, 5, 10, 37, 80, 99, 101})
      EXPECT_EQ(learning_rate(samples, 7, i * kBatch),
                learning_rate(iterations, kBatch, i * kBatch));
  }
}

TEST(Schedule, Constant) {
  ScheduleOptions options = base();
  options.decay_style = DecayStyle::constant;
  expect_rates(options, kIterations,
               {1e-06, 0.0005005000000000001, 0.001, 0.001, 0.001, 0.001, 0.001, 0.001, 0.001});
}

TEST(Schedule, Linear) {
  ScheduleOptions options = base();
  options.decay_style = DecayStyle::linear;
  expect_rates(options, kIterations,
               {1e-06, 0.0005005000000000001, 0.001, 0.000989, 0.000703, 2.099999999999996e-05,
                1e-05, 1e-05, 1e-05});
}

TEST(Schedule, Cosine) {
  ScheduleOptions options = base();
  options.decay_style = DecayStyle::cosine;
  expect_rates(options, kIterations,
               {1e-06, 0.0005005000000000001, 0.001, 0.0009996984593744526, 0.0007959536998847742,
                1.0301540625547598e-05, 1e-05, 1e-05, 1e-05});
}

TEST(Schedule, InverseSquareRoot) {
  ScheduleOptions options = base();
  options.decay_style = DecayStyle::inverse_square_root;
  expect_rates(options, kIterations,
               {1e-06, 0.0005005000000000001, 0.001, 0.0009534625892455924, 0.0005198752449100364,
                0.00031782086308186413, 0.00031622776601683794, 1e-05, 1e-05});
}

TEST(Schedule, WarmupStableDecay_exponential) {
  ScheduleOptions options = base();
  options.decay_style = DecayStyle::wsd;
  options.wsd_decay_style = WsdDecayStyle::exponential;
  options.wsd_decay_iters = 30;
  expect_rates(options, {0, 5, 10, 11, 37, 70, 71, 85, 100, 101},
               {1e-06, 0.0005005000000000001, 0.001, 0.001, 0.001, 0.001, 0.000954776737499807,
                0.0004200714267493642, 1e-05, 1e-05});
}

TEST(Schedule, WarmupStableDecay_linear) {
  ScheduleOptions options = base();
  options.decay_style = DecayStyle::wsd;
  options.wsd_decay_style = WsdDecayStyle::linear;
  options.wsd_decay_iters = 30;
  expect_rates(
      options, {0, 5, 10, 11, 37, 70, 71, 85, 100, 101},
      {1e-06, 0.0005005000000000001, 0.001, 0.001, 0.001, 0.001, 0.000967, 0.000505, 1e-05, 1e-05});
}

TEST(Schedule, WarmupStableDecay_cosine) {
  ScheduleOptions options = base();
  options.decay_style = DecayStyle::wsd;
  options.wsd_decay_style = WsdDecayStyle::cosine;
  options.wsd_decay_iters = 30;
  expect_rates(options, {0, 5, 10, 11, 37, 70, 71, 85, 100, 101},
               {1e-06, 0.0005005000000000001, 0.001, 0.001, 0.001, 0.001, 0.0009972883382072953,
                0.000505, 1e-05, 1e-05});
}

TEST(Schedule, WarmupStableDecay_minus_sqrt) {
  ScheduleOptions options = base();
  options.decay_style = DecayStyle::wsd;
  options.wsd_decay_style = WsdDecayStyle::minus_sqrt;
  options.wsd_decay_iters = 30;
  expect_rates(options, {0, 5, 10, 11, 37, 70, 71, 85, 100, 101},
               {1e-06, 0.0005005000000000001, 0.001, 0.001, 0.001, 0.001, 0.0008192515560232952,
                0.00029996428662531794, 1e-05, 1e-05});
}

TEST(Schedule, WarmupFractionIsOfTheDecay) {
  ScheduleOptions options = base();
  options.warmup_fraction = 0.5;
  EXPECT_NEAR(learning_rate(options, kBatch, 25 * kBatch), 1e-6 + (1e-3 - 1e-6) / 2, 1e-15);
}

// Megatron's formulas: the ramp ends with the run.
TEST(Schedule, RaisesWeightDecay) {
  ScheduleOptions options;
  options.start_weight_decay = 0.1;
  options.end_weight_decay = 0.5;
  EXPECT_EQ(weight_decay(options, 0.3, 100, 50), 0.3);
  options.weight_decay_style = WeightDecayStyle::linear;
  EXPECT_DOUBLE_EQ(weight_decay(options, 0.3, 100, 0), 0.1);
  EXPECT_DOUBLE_EQ(weight_decay(options, 0.3, 100, 25), 0.2);
  EXPECT_DOUBLE_EQ(weight_decay(options, 0.3, 100, 100), 0.5);
  EXPECT_DOUBLE_EQ(weight_decay(options, 0.3, 100, 120), 0.5);
  options.weight_decay_style = WeightDecayStyle::cosine;
  EXPECT_DOUBLE_EQ(weight_decay(options, 0.3, 100, 0), 0.1);
  EXPECT_DOUBLE_EQ(weight_decay(options, 0.3, 100, 50), 0.3);
  EXPECT_NEAR(weight_decay(options, 0.3, 100, 25), 0.1 + 0.4 * 0.14644660940672627, 1e-15);
}

// Embedding and output layer follow the same curve between rates of their own.
TEST(Schedule, MayHaveADecoupledRate) {
  const ScheduleOptions options = base();
  OptimizerOptions optimizer;
  optimizer.weight_decay = 0.1;
  for (const std::int64_t i : kIterations) {
    const StepRates same = step_rates(options, optimizer, 400, kBatch, i * kBatch);
    EXPECT_EQ(same.learning_rate, learning_rate(options, kBatch, i * kBatch));
    EXPECT_EQ(same.decoupled_rate, same.learning_rate);
    EXPECT_EQ(same.weight_decay, 0.1);
  }
  optimizer.decoupled_lr = 2e-3;
  optimizer.decoupled_min_lr = 5e-4;
  const auto at = [&](std::int64_t i) {
    return step_rates(options, optimizer, 400, kBatch, i * kBatch).decoupled_rate;
  };
  EXPECT_DOUBLE_EQ(at(10), 2e-3);
  EXPECT_DOUBLE_EQ(at(200), 5e-4);
  EXPECT_EQ(step_rates(options, optimizer, 400, kBatch, 40).learning_rate, 1e-3);
}

}  // namespace
}  // namespace tessera
