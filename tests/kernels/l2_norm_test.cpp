// The norm of heads without weights: against the RMSNorm whose weights are 1, and its gradient.
#include <gtest/gtest.h>

#include "tests/support/gradient_test.h"
#include "tests/support/kernel_test.h"
#include "tests/support/reference_ops.h"

namespace tessera::test {
namespace {

class L2NormTest : public KernelTest {};

TEST_P(L2NormTest, IsRmsNormWithWeightsOfOne) {
  const std::int64_t rows = 11, heads = 3, n = 21;
  const NormSpec spec{.kind = NormKind::rms, .epsilon = 1e-3};
  const Input x = random({rows, heads, n}), dy = random({rows, heads, n});
  const Values ones(static_cast<std::size_t>(n), 1);
  const Tensor y = empty({rows, heads, n}), dx = empty({rows, heads, n});
  lab->l2_norm_forward(stream, y, View(x), spec.epsilon);
  expect_values(y, reference::norm(x.values, ones, {}, spec).y, 2);
  lab->l2_norm_backward(stream, dx, View(dy), View(x), spec.epsilon);
  expect_values(dx, reference::norm_backward(dy.values, x.values, ones, spec).dx, 4);
  lab->l2_norm_backward(stream, dy, View(dy), View(x), spec.epsilon);
  EXPECT_EQ(lab.bytes(dy), lab.bytes(dx)) << "dx may be dy";
}

// As a layer calls it: some heads of a wider row.
TEST_P(L2NormTest, RowsMayBeStrided) {
  const Input x = random({4, 5, 6});
  const Tensor y = lab.full(dtype(), {4, 5, 6}, 7), packed = empty({4, 3, 6});
  lab->l2_norm_forward(stream, y.view().slice(1, 1, 3), View(x).slice(1, 1, 3), 1e-5);
  const Tensor dense = empty({4, 3, 6});
  lab->copy(stream, dense, View(x).slice(1, 1, 3));
  lab->l2_norm_forward(stream, packed, dense.view(), 1e-5);
  EXPECT_EQ(lab.read(y.view().slice(1, 1, 3)), lab.read(packed));
  EXPECT_EQ(lab.read(y.view().slice(1, 0, 1)), Values(24, 7.0));
}

TESSERA_KERNEL_SUITE(L2NormTest);

class L2NormGradients : public GradientTest {};

TEST_P(L2NormGradients, OfTheInput) {
  const Shape shape{3, 2, 5};
  const auto forward = [&](const std::vector<Values>& x) {
    const Tensor y = empty(shape);
    lab->l2_norm_forward(stream, y, tensor(shape, x[0]), 1e-2);
    return lab.read(y);
  };
  const auto backward = [&](const std::vector<Values>& x, const Values& dy) {
    const Tensor dx = empty(shape);
    lab->l2_norm_backward(stream, dx, tensor(shape, dy), tensor(shape, x[0]), 1e-2);
    return std::vector<Values>{lab.read(dx)};
  };
  check_gradients({{random(shape)}, forward, backward});
}

TESSERA_GRADIENT_SUITE(L2NormGradients);

}  // namespace
}  // namespace tessera::test
