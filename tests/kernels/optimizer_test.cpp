// The optimizers over several steps against a plain reference in double, and the gradient norm.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "tessera/base/master_weight.h"
#include "tests/support/kernel_test.h"
#include "tests/support/reference_training.h"

namespace tessera::test {
namespace {

constexpr std::int64_t kSize = 1037;
constexpr int kSteps = 5;

class OptimizerTest : public KernelTest {
 protected:
  bool sixteen_bits() const { return acc() != dtype(); }

  Tensor upload(const StepState& state) {
    std::vector<std::uint8_t> bytes(sizeof(StepState));
    std::memcpy(bytes.data(), &state, bytes.size());
    return lab.tensor(DType::u8, {sizeof(StepState)}, Values(bytes.begin(), bytes.end()));
  }
  StepState download(const Tensor& state) {
    StepState result;
    std::memcpy(&result, lab.bytes(state).data(), sizeof(result));
    return result;
  }

  // What a range may keep beside its values.
  enum class Master { none, copy, low_bits };
  std::vector<Master> masters() const {
    if (dtype() == DType::bf16) return {Master::copy, Master::low_bits};
    return sixteen_bits() ? std::vector{Master::copy} : std::vector{Master::none, Master::copy};
  }
  Tensor master_of(Master kind, const Values& values) {
    if (kind == Master::none) return {};
    return kind == Master::copy ? lab.tensor(acc(), {kSize}, values)
                                : lab.full(DType::i16, {kSize}, 0);
  }
  // The exact weights.
  Tensor exact_of(Master kind, const View& value, const Tensor& master) {
    if (kind == Master::none) return lab.tensor(acc(), {kSize}, lab.read(value));
    if (kind == Master::copy) return lab.tensor(acc(), {kSize}, lab.read(master));
    Values weights = lab.read(value);
    const Values low_bits = lab.read(master);
    for (std::size_t i = 0; i < weights.size(); ++i)
      weights[i] = joined_weight(BFloat16(static_cast<float>(weights[i])),
                                 static_cast<std::int16_t>(low_bits[i]));
    return lab.tensor(acc(), {kSize}, weights);
  }

  Values rounded_by(Master kind, Values exact) const {
    if (kind != Master::low_bits) return rounded(dtype(), exact);
    for (double& each : exact)
      each = static_cast<float>(split_weight(static_cast<float>(each)).value);
    return exact;
  }

  // Runs kSteps of step(value, master, grad, state) beside the reference's weights.
  template <class W, class Spec, class F>
  void expect_steps(const Spec& spec, Master kind, DType grad_type, F&& step) {
    const Input value = random({kSize});
    const Tensor master = master_of(kind, value.values);
    std::vector<W> expected;
    for (const double x : value.values) expected.push_back(W{x});
    for (int t = 1; t <= kSteps; ++t) {
      const StepState state{
          .step = t, .rates = {0.01 * t, 0, 0.1}, .clip_factor = t == 2 ? 0.25 : 1.0};
      const Input grad = random(grad_type, {kSize});
      step(value, master, grad, upload(state));
      for (std::size_t i = 0; i < expected.size(); ++i)
        expected[i].step(grad.values[i], state, spec);
    }
    Values weights;
    for (const W& each : expected) weights.push_back(each.weight);
    const Tensor exact = exact_of(kind, value, master);
    expect_values(exact.view(), weights, 2);
    EXPECT_EQ(lab.read(View(value)), rounded_by(kind, lab.read(exact)))
        << "the value is the rounded master";
  }
};

TEST_P(OptimizerTest, Adamw) {
  const AdamSpec spec{.beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-6, .decay = true};
  for (const bool decay : {true, false})
    for (const Master master_kind : masters())
      for (const DType grad_type : {dtype(), acc()}) {
        AdamSpec each = spec;
        each.decay = decay;
        const Tensor m = lab.full(acc(), {kSize}, 0);
        const Tensor v = lab.full(acc(), {kSize}, 0);
        expect_steps<reference::AdamWeight>(
            each, master_kind, grad_type,
            [&](View value, View master, View grad, const Tensor& state) {
              lab->adamw_step(stream, value, master, m, v, grad, state, each);
            });
      }
}

// What is kept in bf16 is rounded after each step, and nothing else changes.
TEST_P(OptimizerTest, AdamwWithNarrowMoments) {
  if (acc() != DType::f32) return;
  const AdamSpec spec{.beta1 = 0.8, .beta2 = 0.95};
  for (const bool narrow_mean : {true, false}) {
    const Input values = random({kSize});
    const Tensor copy = lab.tensor(dtype(), {kSize}, values.values);
    const Master kind = masters().front();
    const Tensor master = master_of(kind, values.values);
    const Tensor master_copy = master_of(kind, values.values);
    const DType mean_type = narrow_mean ? DType::bf16 : DType::f32;
    const Tensor m = lab.full(mean_type, {kSize}, 0), v = lab.full(DType::bf16, {kSize}, 0);
    const Tensor wide_m = lab.full(acc(), {kSize}, 0), wide_v = lab.full(acc(), {kSize}, 0);
    for (int t = 1; t <= 5; ++t) {
      const Input grad = random(acc(), {kSize});
      const Tensor state = upload({.step = t, .rates = {0.01, 0, 0.1}});
      lab->adamw_step(stream, values, master, m, v, grad, state, spec);
      lab->adamw_step(stream, copy, master_copy, wide_m, wide_v, grad, state, spec);
      EXPECT_EQ(lab.read(View(values)), lab.read(copy)) << "step " << t;
      const auto expect_rounded = [&](const Tensor& narrow, const Tensor& wide) {
        const Tensor rounded = lab.full(narrow.view().dtype(), {kSize}, 0);
        lab->copy(stream, rounded, wide.view());
        EXPECT_EQ(lab.read(narrow), lab.read(rounded)) << "step " << t;
        lab->copy(stream, wide, rounded.view());
      };
      expect_rounded(m, wide_m);
      expect_rounded(v, wide_v);
    }
  }
}

TEST_P(OptimizerTest, Sgd) {
  for (const double momentum : {0.0, 0.9})
    for (const Master master_kind : masters())
      for (const DType grad_type : {dtype(), acc()}) {
        const SgdSpec spec{.momentum = momentum, .decay = momentum > 0};
        const Tensor buffer = lab.full(acc(), {kSize}, 0);
        expect_steps<reference::SgdWeight>(
            spec, master_kind, grad_type,
            [&](View value, View master, View grad, const Tensor& state) {
              lab->sgd_step(stream, value, master, buffer, grad, state, spec);
            });
      }
}

// The exact weights are the same whether they are copied or split, to the bit.
TEST_P(OptimizerTest, ASplitMasterIsTheMaster) {
  if (dtype() != DType::bf16) return;  // only bf16 values can be halves of f32 masters
  std::vector<Values> exact;
  for (const Master kind : {Master::copy, Master::low_bits}) {
    const Tensor value = lab.tensor(dtype(), {kSize}, random_values(kSize, 1));
    const Tensor master = master_of(kind, lab.read(value));
    const Tensor grad = lab.tensor(acc(), {kSize}, random_values(kSize, 2));
    const Tensor m = lab.full(acc(), {kSize}, 0), v = lab.full(acc(), {kSize}, 0);
    for (int t = 1; t <= 20; ++t)
      lab->adamw_step(stream, value, master, m, v, grad,
                      upload({.step = t, .rates = {1e-3, 0, 0.1}}), {});
    exact.push_back(lab.read(exact_of(kind, value, master)));
  }
  EXPECT_TRUE(exact[0] == exact[1]);
}

TEST(SplitWeight, KeepsEveryBit) {
  // Around every upper half: its neighbours, the tie, and both ends.
  for (std::uint32_t upper = 0; upper < 0x10000; ++upper)
    for (const std::uint32_t lower : {0u, 1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
      const float weight = detail::float_from_bits(upper << 16 | lower);
      const SplitWeight split = split_weight(weight);
      if (std::isnan(weight)) {
        ASSERT_TRUE(std::isnan(static_cast<float>(split.value)));
        continue;
      }
      ASSERT_EQ(detail::float_bits(joined_weight(split.value, split.low_bits)),
                upper << 16 | lower);
      if (lower != 0x8000u) {
        ASSERT_EQ(split.value.bits, BFloat16(weight).bits) << "a tie is the only other";
      }
    }
}

// Updates far below the spacing of 16-bit values add up in the master copy.
TEST_P(OptimizerTest, SmallUpdatesAreNotLost) {
  const Tensor value = lab.full(dtype(), {1}, 1);
  const Tensor master = lab.full(acc(), {1}, 1);
  const Tensor buffer = lab.full(acc(), {1}, 0);
  const Tensor grad = lab.full(dtype(), {1}, 1);
  const Tensor state = upload({.step = 1, .rates = {0x1p-14, 0, 0}});
  for (int i = 0; i < 1024; ++i)
    lab->sgd_step(stream, value, master, buffer, grad, state, {.momentum = 0, .decay = false});
  EXPECT_EQ(lab.read(value), Values{1 - 1024 * 0x1p-14});
}

TEST_P(OptimizerTest, SumOfSquares) {
  for (const std::int64_t n : {0, 1, 33'000, 70'000}) {
    const Input x = random({n});
    double expected = 0;
    for (const double each : x.values) expected += each * each;
    const Tensor out = lab.full(DType::f64, {1}, 3);
    const Tensor workspace = lab.workspace(lab->sum_squares_workspace_bytes(n));
    lab->sum_squares(stream, out, View(x), true, workspace);
    expect_close(lab.read(out), {expected + 3}, 1e-13);
    lab->sum_squares(stream, out, View(x), false, workspace);
    expect_close(lab.read(out), {expected}, 1e-13);
  }
}

TEST_P(OptimizerTest, CountsWhatIsNotZero) {
  for (const std::int64_t n : {0, 1, 33'000, 70'000}) {
    std::vector<double> values(static_cast<std::size_t>(n));
    double expected = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = i % 3 == 0 ? 0 : i % 3 == 1 ? -0.5 : std::nan("");
      expected += i % 3 == 0 ? 0 : 1;
    }
    const Tensor x = lab.tensor(dtype(), {n}, values);
    const Tensor out = lab.full(DType::f64, {1}, 3);
    const Tensor workspace = lab.workspace(lab->sum_squares_workspace_bytes(n));
    lab->count_nonzero(stream, out, x, true, workspace);
    EXPECT_EQ(lab.read(out), Values{expected + 3});
    lab->count_nonzero(stream, out, x, false, workspace);
    EXPECT_EQ(lab.read(out), Values{expected});
  }
}

// Decoupled ranges have a learning rate of their own.
TEST_P(OptimizerTest, DecoupledRangesHaveTheirOwnRate) {
  const Input value = random({kSize}), grad = random({kSize});
  const auto updated = [&](bool decoupled, const StepRates& rates, bool adam) {
    const Tensor weights = lab.tensor(acc(), {kSize}, value.values);
    const Tensor m = lab.full(acc(), {kSize}, 0), v = lab.full(acc(), {kSize}, 0);
    const Tensor low = lab.tensor(dtype(), {kSize}, value.values);
    const Tensor state = upload({.step = 1, .rates = rates});
    const Tensor exact = dtype() == acc() ? Tensor() : weights;
    if (adam)
      lab->adamw_step(stream, low, exact, m, v, View(grad), state, {.decoupled = decoupled});
    else
      lab->sgd_step(stream, low, exact, m, View(grad), state, {.decoupled = decoupled});
    return lab.read(low);
  };
  for (const bool adam : {true, false}) {
    EXPECT_EQ(updated(true, {0.5, 0.125, 0.1}, adam), updated(false, {0.125, 0.5, 0.1}, adam));
    EXPECT_NE(updated(true, {0.5, 0.125, 0.1}, adam), updated(false, {0.5, 0.125, 0.1}, adam));
  }
}

TEST_P(OptimizerTest, ASkippedStepChangesNothing) {
  const Input value = random({kSize});
  const Tensor master = lab.tensor(acc(), {kSize}, value.values);
  const Input m = random(acc(), {kSize}), v = random(acc(), {kSize});
  const Tensor grad = lab.full(dtype(), {kSize}, std::nan(""));
  const Tensor state = upload({.step = 3, .rates = {0.1, 0, 0}, .skipped = 1});
  lab->adamw_step(stream, value, master, m, v, grad, state, {});
  lab->sgd_step(stream, value, master, m, grad, state, {});
  EXPECT_EQ(lab.read(View(value)), value.values);
  EXPECT_EQ(lab.read(master), value.values);
  EXPECT_EQ(lab.read(View(m)), m.values);
  EXPECT_EQ(lab.read(View(v)), v.values);
}

TEST_P(OptimizerTest, WeightsAreDividedByASumOfAtLeastOne) {
  const Tensor weights = lab.tensor(DType::f64, {2}, {3, 8});
  lab->divide_by_sum(stream, weights, lab.tensor(DType::f64, {3}, {1, 2.5, 0.5}));
  EXPECT_EQ(lab.read(weights), (Values{0.75, 2}));
  lab->divide_by_sum(stream, weights, lab.tensor(DType::f64, {1}, {0.5}));
  EXPECT_EQ(lab.read(weights), (Values{0.75, 2}));
}

// How a step ends, from its sum of squares and its losses.
class FinishStep : public OptimizerTest {
 protected:
  StepState start;
  StepRules rules;
  std::vector<StepRecord> records;  ///< after finish: the ring

  void finish(double squares, double loss = 1) {
    const Tensor state = upload(start);
    const Tensor ring = lab.full(DType::u8, {3 * sizeof(StepRecord)}, 0);
    lab->finish_step(
        stream, state, ring, lab.full(DType::f64, {1}, squares),
        lab.tensor(DType::f64, {2}, {loss, 3}), lab.tensor(DType::f64, {2}, {1, 0.5}),
        lab.tensor(DType::f64, {3, kStepRates}, {0.1, 1, 0.5, 0.2, 2, 0.6, 0.3, 3, 0.7}), rules);
    start = download(state);
    records.resize(3);
    std::memcpy(records.data(), lab.bytes(ring).data(), 3 * sizeof(StepRecord));
  }
  const StepRecord& record() const {
    return records[static_cast<std::size_t>(start.iteration % 3)];
  }
};

TEST_P(FinishStep, ClipsByTheNorm) {
  const auto factor = [&](double squares, double max_norm) {
    start = {};
    rules.max_norm = max_norm;
    finish(squares);
    EXPECT_EQ(record().grad_norm, std::sqrt(squares));
    return start.clip_factor;
  };
  EXPECT_DOUBLE_EQ(factor(16, 1), 1 / (4 + 1e-6));
  EXPECT_EQ(factor(16, 5), 1);
  EXPECT_EQ(factor(16, 0), 1) << "0 switches clipping off";
  EXPECT_EQ(factor(0, 1), 1);
}

TEST_P(FinishStep, CountsStepsAndTakesTheirRates) {
  start.step = 7;
  start.rates_begin = 6;
  for (const double rate : {0.2, 0.3, 0.3}) {  // the last rates serve all after them
    finish(4);
    EXPECT_EQ(start.rates.learning_rate, rate);
    EXPECT_EQ(record().learning_rate, rate);
    EXPECT_EQ(record().loss, 2.5);
    EXPECT_DOUBLE_EQ(start.rates.decoupled_rate, 10 * rate);
    EXPECT_DOUBLE_EQ(start.rates.weight_decay, rate + 0.4);
    EXPECT_EQ(start.skipped, 0);
  }
  EXPECT_EQ(start.step, 10);
  EXPECT_EQ(start.iteration, 3);
}

TEST_P(FinishStep, MaySkipFaultsInsteadOfEndingTheRun) {
  rules.stops_if_not_finite = false;
  for (const double loss : {1.0, std::numeric_limits<double>::quiet_NaN()}) {
    start = {};
    finish(loss == 1 ? std::nan("") : 4, loss);
    EXPECT_EQ(record().failed, 0);
    EXPECT_EQ(start.skipped, 1);
    finish(4);
    EXPECT_EQ(record().failed, 0);
    EXPECT_EQ(start.skipped, 0);
    EXPECT_EQ(start.step, 1);
  }
}

TEST_P(FinishStep, WithoutScalingTheFirstFaultEndsAllSteps) {
  finish(4);
  finish(std::nan(""));
  EXPECT_EQ(record().failed, 1);
  finish(4);
  EXPECT_EQ(record().failed, 1);
  EXPECT_EQ(start.skipped, 1);
  EXPECT_EQ(start.failed_iteration, 2);
  EXPECT_EQ(start.step, 1);
  start = {};
  finish(4, std::numeric_limits<double>::infinity());
  EXPECT_EQ(record().failed, 1) << "a loss that is not finite is a fault, too";
}

TEST_P(FinishStep, ScalingFollowsMegatron) {
  const double overflow = std::numeric_limits<double>::infinity();
  rules = {.max_norm = 1, .scaling = LossScaling::dynamic, .least_scale = 2, .growth_interval = 3};
  start.loss_scale = 16;
  const auto expect = [&](double squares, double scale, std::int64_t skipped) {
    finish(squares);
    EXPECT_EQ(start.loss_scale, scale);
    EXPECT_EQ(start.skipped, skipped);
    EXPECT_EQ(record().failed, 0);
  };
  expect(overflow, 16, 1);  // the first is forgiven
  expect(256.0, 16, 0);
  EXPECT_EQ(start.grad_norm, 1) << "of the gradients without the scale";
  EXPECT_DOUBLE_EQ(start.clip_factor, 1 / (1 + 1e-6) / 16);
  expect(overflow, 8, 1);  // good steps between do not reset the count
  expect(overflow, 4, 1);
  for (const double scale : {4.0, 4.0, 8.0}) expect(1, scale, 0);
  expect(overflow, 8, 1);  // growth does
  for (const double scale : {4.0, 2.0, 2.0}) expect(overflow, scale, 1);
  EXPECT_EQ(start.step, 4);
  EXPECT_EQ(start.iteration, 11);
  rules.scaling = LossScaling::constant;
  expect(overflow, 2, 1);
}

TESSERA_KERNEL_SUITE(FinishStep);
TESSERA_KERNEL_SUITE(OptimizerTest);

}  // namespace
}  // namespace tessera::test
