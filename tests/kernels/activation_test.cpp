// Every activation, plain and gated, against its formula in double, and its gradient.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "tests/support/gradient_test.h"
#include "tests/support/kernel_test.h"
#include "tests/support/reference_ops.h"

namespace tessera::test {
namespace {

TEST(ActivationNames, AreAllThereAndDiffer) {
  std::set<std::string_view> names;
  for (const Activation each : kActivations) names.insert(to_string(each));
  EXPECT_EQ(names.size(), kActivations.size());
  EXPECT_GT(kActivations.size(), static_cast<std::size_t>(Activation::squared_relu));
}

class ActivationTest : public KernelTest {};

TEST_P(ActivationTest, Plain) {
  for (const Activation kind : kActivations)
    for (const std::int64_t n : {1, 3, 131}) {
      SCOPED_TRACE(to_string(kind));
      const Input x = random({n, 3}, 3);
      const Input dy = random({n, 3});
      Values expected = x.values;
      for (double& each : expected) each = reference::activation(kind, each);
      const Tensor y = empty({n, 3});
      lab->activation_forward(stream, y, View(x), kind);
      expect_values(y, expected, 2);
      const auto times_slope = [&](double d, double at) {
        return d * reference::activation_slope(kind, at);
      };
      const Tensor dx = empty({n, 3});
      lab->activation_backward(stream, dx, View(dy), View(x), kind);
      expect_values(dx, reference::each(dy.values, x.values, times_slope), 2);
      lab->activation_backward(stream, dy, View(dy), View(x), kind);
      EXPECT_EQ(lab.bytes(dy), lab.bytes(dx)) << "dx may be dy";
      lab->activation_forward(stream, x, View(x), kind);
      EXPECT_EQ(lab.bytes(x), lab.bytes(y)) << "y may be x";
    }
}

TEST_P(ActivationTest, Gated) {
  for (const Activation kind : kActivations)
    for (const std::int64_t rows : {1, 5})
      for (const std::int64_t f : {1, 7, 130}) {
        SCOPED_TRACE(to_string(kind));
        const auto width = static_cast<std::size_t>(f);
        const Input x = random({rows, 2 * f}, 3);
        const Input dy = random({rows, f});
        const Tensor y = empty({rows, f});
        lab->gated_activation_forward(stream, y, View(x), kind);
        expect_values(y, reference::gated_activation(kind, x.values, width), 2);
        const Tensor dx = empty({rows, 2 * f});
        lab->gated_activation_backward(stream, dx, {}, View(dy), View(x), kind);
        expect_values(dx, reference::gated_activation_backward(kind, dy.values, x.values, width),
                      2);
        lab->gated_activation_backward(stream, x, dy, View(dy), View(x), kind);
        EXPECT_EQ(lab.bytes(x), lab.bytes(dx)) << "dx may be x";
        EXPECT_EQ(lab.bytes(dy), lab.bytes(y)) << "y comes again, and may be dy";
      }
}

// gpt-oss: up to 7 of the gate, up within 7 and shifted by 1; here with smaller limits, so that
// many values are beyond them.
TEST_P(ActivationTest, GatedWithLimits) {
  const std::int64_t rows = 5, f = 130;
  for (const ActivationSpec& spec :
       {ActivationSpec(Activation::quick_gelu, 1.5, 1), ActivationSpec(Activation::silu, 0, 0.5),
        ActivationSpec(Activation::gelu, 0.75, 0)}) {
    const Input x = random({rows, 2 * f}, 3), dy = random({rows, f});
    Values y, dx(x.values.size());
    for (std::size_t i = 0; i < dy.values.size(); ++i) {
      const std::size_t at = i / f * 2 * f + i % f;
      const auto gate = reference::limited_gate(spec, x.values[at]);
      const auto up = reference::limited_up(spec, x.values[at + f]);
      const double act = reference::activation(spec.kind, gate.value), d = dy.values[i];
      y.push_back(act * up.value);
      dx[at] = gate.slope * d * up.value * reference::activation_slope(spec.kind, gate.value);
      dx[at + f] = up.slope * d * act;
    }
    const Tensor got = empty({rows, f}), got_dx = empty({rows, 2 * f});
    lab->gated_activation_forward(stream, got, View(x), spec);
    expect_values(got, y, 2);
    lab->gated_activation_backward(stream, got_dx, {}, View(dy), View(x), spec);
    expect_values(got_dx, dx, 2);
    // The same behind weights of 1, with their gradient.
    const Tensor ones = lab.full(acc(), {rows}, 1), dweight = empty(acc(), {rows});
    const Tensor weighted = empty({rows, f});
    lab->expert_activation_forward(stream, weighted, View(x), ones.view(), spec);
    expect_values(weighted, y, 2);
    lab->expert_activation_backward(stream, got_dx, weighted, dweight, View(dy), View(x),
                                    ones.view(), spec);
    expect_values(got_dx, dx, 2);
    expect_values(weighted, y, 2);
    Values dots(static_cast<std::size_t>(rows));
    for (std::size_t i = 0; i < y.size(); ++i) dots[i / f] += y[i] * dy.values[i];
    EXPECT_LE(relative_error(lab.read(dweight), dots), std::max(1e-5, tolerance()));
  }
}

// Of gpt-oss: (gate, up) of (1, 0.5) and (10, -9).
TEST(LimitedActivation, KnownNumbers) {
  Lab lab;
  const Tensor x = lab.tensor(DType::f64, {2, 2}, {1, 0.5, 10, -9});
  const Tensor y = lab.full(DType::f64, {2, 1}, 0);
  lab->gated_activation_forward(lab.stream, y, x.view(),
                                ActivationSpec(Activation::quick_gelu, 7, 1));
  EXPECT_NEAR(lab.read(y)[0], 1.26869, 1e-5);
  EXPECT_NEAR(lab.read(y)[1], -41.99972, 1e-5);
}

TEST_P(ActivationTest, NanStaysAndLargeInputsMakeNone) {
  for (const Activation kind : kActivations) {
    SCOPED_TRACE(to_string(kind));
    const Input x = input(dtype(), {5}, {NAN, 64, -64, -60000, INFINITY});
    const Tensor y = empty({5}), dx = empty({5});
    lab->activation_forward(stream, y, View(x), kind);
    lab->activation_backward(stream, dx, lab.full(dtype(), {5}, 1), View(x), kind);
    const Values values = lab.read(y);
    const Values slopes = lab.read(dx);
    EXPECT_TRUE(std::isnan(values[0]));
    EXPECT_EQ(values[1], kind == Activation::squared_relu ? 4096 : 64);
    EXPECT_EQ(slopes[1], kind == Activation::squared_relu ? 128 : 1);
    for (const std::size_t negative : {2, 3}) {
      EXPECT_NEAR(values[negative], 0, 1e-20);
      EXPECT_NEAR(slopes[negative], 0, 1e-20);
    }
    EXPECT_EQ(values[4], INFINITY);
  }
}

TESSERA_KERNEL_SUITE(ActivationTest);

class ActivationGradients : public GradientTest {
 protected:
  // ReLU has a corner at 0, where differences say nothing.
  Values away_from_zero(const Shape& shape) {
    Values x = random(shape, 2);
    for (double& each : x) each = std::copysign(std::max(std::fabs(each), 1e-3), each);
    return x;
  }
};

TEST_P(ActivationGradients, Plain) {
  for (const Activation kind : kActivations) {
    SCOPED_TRACE(to_string(kind));
    const auto forward = [&](const std::vector<Values>& x) {
      const Tensor y = empty({40});
      lab->activation_forward(stream, y, tensor({40}, x[0]), kind);
      return lab.read(y);
    };
    const auto backward = [&](const std::vector<Values>& x, const Values& dy) {
      const Tensor dx = empty({40});
      lab->activation_backward(stream, dx, tensor({40}, dy), tensor({40}, x[0]), kind);
      return std::vector<Values>{lab.read(dx)};
    };
    check_gradients({{away_from_zero({40})}, forward, backward});
  }
}

TEST_P(ActivationGradients, Gated) {
  for (const Activation kind : kActivations) {
    SCOPED_TRACE(to_string(kind));
    const auto forward = [&](const std::vector<Values>& x) {
      const Tensor y = empty({3, 4});
      lab->gated_activation_forward(stream, y, tensor({3, 8}, x[0]), kind);
      return lab.read(y);
    };
    const auto backward = [&](const std::vector<Values>& x, const Values& dy) {
      const Tensor dx = empty({3, 8});
      lab->gated_activation_backward(stream, dx, {}, tensor({3, 4}, dy), tensor({3, 8}, x[0]),
                                     kind);
      return std::vector<Values>{lab.read(dx)};
    };
    check_gradients({{away_from_zero({3, 8})}, forward, backward});
  }
}

TEST_P(ActivationGradients, GatedWithLimits) {
  const ActivationSpec spec(Activation::quick_gelu, 1.0, 1.0);
  const auto forward = [&](const std::vector<Values>& x) {
    const Tensor y = empty({3, 4});
    lab->gated_activation_forward(stream, y, tensor({3, 8}, x[0]), spec);
    return lab.read(y);
  };
  const auto backward = [&](const std::vector<Values>& x, const Values& dy) {
    const Tensor dx = empty({3, 8});
    lab->gated_activation_backward(stream, dx, {}, tensor({3, 4}, dy), tensor({3, 8}, x[0]), spec);
    return std::vector<Values>{lab.read(dx)};
  };
  Values x = random({3, 8}, 2);  // the limits are corners
  for (double& each : x)
    if (std::fabs(std::fabs(each) - 1) < 1e-3) each = 1.5;
  check_gradients({{x}, forward, backward});
}

TESSERA_GRADIENT_SUITE(ActivationGradients);

}  // namespace
}  // namespace tessera::test
