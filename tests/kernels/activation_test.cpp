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

TESSERA_GRADIENT_SUITE(ActivationGradients);

}  // namespace
}  // namespace tessera::test
