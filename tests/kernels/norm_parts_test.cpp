// Norms of rows whose channels are spread over ranks: the parts together are the whole.
#include <gtest/gtest.h>

#include "tests/support/gradient_test.h"
#include "tests/support/kernel_test.h"
#include "tests/support/norm_parts.h"
#include "tests/support/reference_ops.h"

namespace tessera::test {
namespace {

constexpr NormSpec kPartedNorms[] = {{NormKind::layer, 1e-5},
                                     {NormKind::rms, 1e-6},
                                     {NormKind::layer, 1e-5, true},
                                     {NormKind::rms, 1e-6, true}};

class NormPartsTest : public KernelTest {
 protected:
  // A norm's input is not centred, and neither its rows nor its parts are alike.
  Input rows(const Shape& shape, double offset) {
    Values x = random(shape).values;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::size_t column = i % static_cast<std::size_t>(shape[-1]);
      x[i] = 3 * x[i] + offset + 0.1 * static_cast<double>(column);
    }
    return input(dtype(), shape, x);
  }
};

TEST_P(NormPartsTest, EqualTheNormOfWholeRows) {
  for (const NormSpec& spec : kPartedNorms)
    for (const std::int64_t parts : {1, 2, 3})
      for (const std::int64_t n : {1, 65})
        for (const std::int64_t width : {3, 7, 64, 130}) {
          const std::int64_t c = parts * width;
          const Input x = rows({n, c}, 2);
          const Input w = random({c});
          const Input b = random({c});
          const Input dy = random({n, c});
          NormParts norm(lab, dtype(), spec, parts);
          const NormParts::Forward forward = norm.forward(x.values, w.values, b.values);
          const reference::Norm whole = reference::norm(x.values, w.values, b.values, spec);
          expect_close(forward.y, whole.y, tolerance(2), "y");
          expect_close(forward.stats, whole.stats, 4 * tolerance_of(acc()), "stats");

          const NormParts::Gradients got = norm.backward(dy.values, x.values, w.values);
          const auto grads = reference::norm_backward(dy.values, x.values, w.values, spec);
          expect_close(got.dx, grads.dx, tolerance(8), "dx");
          expect_close(got.dw, grads.dw, 8 * tolerance_of(acc()), "dw");
          expect_close(got.db, grads.db, 4 * tolerance_of(acc()), "db");
        }
}

TEST_P(NormPartsTest, RowsMayLieApart) {
  for (const NormSpec& spec : kPartedNorms)
    for (const std::int64_t width : {3, 64}) {
      const std::int64_t c = 2 * width;
      const Input x = rows({5, c}, 2);
      const Input w = random({c});
      const Input dy = random({5, c});
      NormParts together(lab, dtype(), spec, 2), apart(lab, dtype(), spec, 2, true);
      EXPECT_EQ(apart.forward(x.values, w.values, {}).y,
                together.forward(x.values, w.values, {}).y);
      const NormParts::Gradients got = apart.backward(dy.values, x.values, w.values);
      const NormParts::Gradients want = together.backward(dy.values, x.values, w.values);
      EXPECT_EQ(got.dx, want.dx);
      EXPECT_EQ(got.dw, want.dw);
    }
}

// Squares about zero, or about one mean for all, would lose the digits that the mean takes.
TEST_P(NormPartsTest, KeepTheirAccuracyFarFromZero) {
  if (element_size(dtype()) == 2) return;  // such inputs are all alike in 16 bits
  const double offset = dtype() == DType::f64 ? 1e6 : 300;
  const Input x = rows({9, 96}, offset);
  const Input w = random({96});
  NormParts norm(lab, dtype(), kPartedNorms[0], 2);
  const Values whole = reference::norm(x.values, w.values, {}, kPartedNorms[0]).y;
  // What is left is the rounding of the inputs' distance from their mean.
  expect_close(norm.forward(x.values, w.values, {}).y, whole, 0.1 * offset * tolerance(1));
}

TEST_P(NormPartsTest, GradientsMayBeAdded) {
  const Input x = rows({70, 12}, 1);
  const Input w = random({12});
  const Input dy = random({70, 12});
  NormParts norm(lab, dtype(), kPartedNorms[0], 1);
  const Values y = norm.forward(x.values, w.values, {}).y;
  const NormParts::Gradients once = norm.backward(dy.values, x.values, w.values);
  const NormParts::Gradients twice = norm.backward(dy.values, x.values, w.values, once);
  const auto doubled = [](const Values& values) { return reference::sum(values, values); };
  expect_close(twice.dx, doubled(once.dx), tolerance(1));
  expect_close(twice.dw, doubled(once.dw), tolerance_of(acc()));
  expect_close(twice.db, doubled(once.db), tolerance_of(acc()));
}

TESSERA_KERNEL_SUITE(NormPartsTest);

class NormPartsGradients : public GradientTest {};

TEST_P(NormPartsGradients, AreThoseOfCentralDifferences) {
  using Parts = std::vector<Values>;
  for (const NormSpec& spec : kPartedNorms) {
    NormParts norm(lab, DType::f64, {spec.kind, 1e-3, spec.one_plus_weight}, 3);
    const auto forward = [&](const Parts& x) { return norm.forward(x[0], x[1], x[2]).y; };
    const auto backward = [&](const Parts& x, const Values& dy) {
      forward(x);
      const NormParts::Gradients got = norm.backward(dy, x[0], x[1]);
      return Parts{got.dx, got.dw, got.db};
    };
    check_gradients({{random({4, 6}), random({6}), random({6})}, forward, backward});
  }
}

TESSERA_GRADIENT_SUITE(NormPartsGradients);

}  // namespace
}  // namespace tessera::test
