// The optimizers over several steps against a plain reference in double, and the gradient norm.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

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

  // Runs kSteps of step(value, master, grad, state) beside the reference's weights.
  template <class W, class Spec, class F>
  void expect_steps(const Spec& spec, bool with_master, DType grad_type, F&& step) {
    const Input value = random({kSize});
    const Tensor master = with_master ? lab.tensor(acc(), {kSize}, value.values) : Tensor();
    std::vector<W> expected;
    for (const double x : value.values) expected.push_back(W{x});
    for (int t = 1; t <= kSteps; ++t) {
      const StepState state{.learning_rate = 0.01 * t,
                            .weight_decay = 0.1,
                            .step = t,
                            .grad_norm = 0,
                            .clip_factor = t == 2 ? 0.25 : 1.0};
      const Input grad = random(grad_type, {kSize});
      step(value, master, grad, upload(state));
      for (std::size_t i = 0; i < expected.size(); ++i)
        expected[i].step(grad.values[i], state, spec);
    }
    Values weights;
    for (const W& each : expected) weights.push_back(each.weight);
    expect_values(with_master ? master.view() : View(value), weights, 2);
    if (!with_master) return;
    EXPECT_EQ(lab.read(View(value)), rounded(dtype(), lab.read(master)))
        << "the value is the rounded master";
  }
};

TEST_P(OptimizerTest, Adamw) {
  const AdamSpec spec{.beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-6, .decay = true};
  for (const bool decay : {true, false})
    for (const bool with_master : {true, false})
      for (const DType grad_type : {dtype(), acc()}) {
        if (!with_master && sixteen_bits()) continue;
        AdamSpec each = spec;
        each.decay = decay;
        const Tensor m = lab.full(acc(), {kSize}, 0);
        const Tensor v = lab.full(acc(), {kSize}, 0);
        expect_steps<reference::AdamWeight>(
            each, with_master, grad_type,
            [&](View value, View master, View grad, const Tensor& state) {
              lab->adamw_step(stream, value, master, m, v, grad, state, each);
            });
      }
}

TEST_P(OptimizerTest, Sgd) {
  for (const double momentum : {0.0, 0.9})
    for (const bool with_master : {true, false})
      for (const DType grad_type : {dtype(), acc()}) {
        if (!with_master && sixteen_bits()) continue;
        const SgdSpec spec{.momentum = momentum, .decay = momentum > 0};
        const Tensor buffer = lab.full(acc(), {kSize}, 0);
        expect_steps<reference::SgdWeight>(
            spec, with_master, grad_type,
            [&](View value, View master, View grad, const Tensor& state) {
              lab->sgd_step(stream, value, master, buffer, grad, state, spec);
            });
      }
}

// Updates far below the spacing of 16-bit values add up in the master copy.
TEST_P(OptimizerTest, SmallUpdatesAreNotLost) {
  const Tensor value = lab.full(dtype(), {1}, 1);
  const Tensor master = lab.full(acc(), {1}, 1);
  const Tensor buffer = lab.full(acc(), {1}, 0);
  const Tensor grad = lab.full(dtype(), {1}, 1);
  const Tensor state = upload({.learning_rate = 0x1p-14, .step = 1});
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

TEST_P(OptimizerTest, ClipFactor) {
  const auto finish = [&](double squares, double max_norm) {
    const Tensor state = upload({.learning_rate = 7, .step = 3, .clip_factor = -1});
    lab->finish_grad_norm(stream, state, lab.full(DType::f64, {1}, squares), max_norm);
    const StepState result = download(state);
    EXPECT_EQ(result.grad_norm, std::sqrt(squares));
    EXPECT_EQ(result.learning_rate, 7) << "the rest of the state stays";
    EXPECT_EQ(result.step, 3);
    return result.clip_factor;
  };
  EXPECT_DOUBLE_EQ(finish(16, 1), 1 / (4 + 1e-6));
  EXPECT_EQ(finish(16, 5), 1);
  EXPECT_EQ(finish(16, 0), 1) << "0 switches clipping off";
  EXPECT_EQ(finish(0, 1), 1);
}

TESSERA_KERNEL_SUITE(OptimizerTest);

}  // namespace
}  // namespace tessera::test
