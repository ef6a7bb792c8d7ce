#include <gtest/gtest.h>

#include "tests/support/kernel_test.h"
#include "tests/support/reference_ops.h"

namespace tessera::test {
namespace {

constexpr NormSpec kSpecs[] = {{NormKind::layer, 1e-5},
                               {NormKind::rms, 1e-6},
                               {NormKind::layer, 1e-5, true},
                               {NormKind::rms, 1e-6, true}};

class NormTest : public KernelTest {
 protected:
  Tensor workspace(std::int64_t rows, std::int64_t channels) {
    return lab.workspace(lab->norm_workspace_bytes(rows, channels, dtype()));
  }
  // A norm's input is not centred, and its rows are not alike.
  Input rows(const Shape& shape) {
    Values x = random(shape).values;
    for (std::size_t i = 0; i < x.size(); ++i)
      x[i] = 3 * x[i] + static_cast<double>(i / static_cast<std::size_t>(shape[-1]) % 5);
    return input(dtype(), shape, x);
  }
};

TEST_P(NormTest, ForwardAndBackwardOfEveryWidth) {
  for (const NormSpec& spec : kSpecs)
    for (const std::int64_t n : {1, 3, 65})  // rows: 65 is past one partial sum of weight gradients
      for (const std::int64_t c : {3, 7, 64, 257}) {
        const Input x = rows({n, c});
        const Input w = random({c});
        const Input b = random({c});
        const Tensor y = empty({n, c});
        const Tensor stats = empty(acc(), {n, 2});
        lab->norm_forward(stream, y, stats, View(x), View(w), View(b), spec);
        const reference::Norm expected = reference::norm(x.values, w.values, b.values, spec);
        expect_values(y, expected.y, 2);
        expect_values(stats, expected.stats, 4);

        const Input dy = random({n, c});
        const Tensor dx = empty({n, c});
        const Tensor dw = empty({c});
        const Tensor db = empty({c});
        lab->norm_backward(stream, dx, dw, db, View(dy), View(x), stats, View(w), spec, false,
                           false, workspace(n, c));
        const auto grads = reference::norm_backward(dy.values, x.values, w.values, spec);
        expect_values(dx, grads.dx, 4);
        expect_values(dw, grads.dw, 4);
        expect_values(db, grads.db, 2);
      }
}

TEST_P(NormTest, GradientsMayBeAddedAndOfAnotherType) {
  const std::int64_t n = 150;
  const std::int64_t c = 33;
  const NormSpec spec = kSpecs[0];
  const Input x = rows({n, c});
  const Input w = random({c});
  const Input dy = random({n, c});
  const Tensor stats = empty(acc(), {n, 2});
  lab->norm_forward(stream, empty({n, c}), stats, View(x), View(w), {}, spec);
  const Input dx = random({n, c});
  const Input dw = random(acc(), {c});
  const Input db = random(acc(), {c});
  lab->norm_backward(stream, dx, dw, db, View(dy), View(x), stats, View(w), spec, true, true,
                     workspace(n, c));
  const auto grads = reference::norm_backward(dy.values, x.values, w.values, spec);
  expect_values(View(dx), reference::sum(dx.values, grads.dx), 2);
  expect_values(View(dw), reference::sum(dw.values, grads.dw), 4);
  expect_values(View(db), reference::sum(db.values, grads.db), 2);
}

TEST_P(NormTest, WithoutABias) {
  for (const NormSpec& spec : kSpecs) {
    const Input x = rows({4, 9});
    const Input w = random({9});
    const Input dy = random({4, 9});
    const Tensor y = empty({4, 9});
    const Tensor stats = empty(acc(), {4, 2});
    lab->norm_forward(stream, y, stats, View(x), View(w), {}, spec);
    expect_values(y, reference::norm(x.values, w.values, {}, spec).y, 2);
    const Tensor dw = empty({9});
    lab->norm_backward(stream, y, dw, {}, View(dy), View(x), stats, View(w), spec, false, false,
                       workspace(4, 9));
    expect_values(dw, reference::norm_backward(dy.values, x.values, w.values, spec).dw, 4);
  }
}

// 1 + w is formed in the accumulator: a weight that is far below a rounding of 1 in 16 bits counts.
TEST_P(NormTest, OnePlusASmallWeight) {
  const double small = element_size(dtype()) == 2 ? 0x1p-12 : 0x1p-20;
  const Input x = input(dtype(), {1, 2}, {1, -1});
  const Tensor w = lab.full(dtype(), {2}, small);
  const Tensor y = empty(dtype(), {1, 2}), stats = empty(acc(), {1, 2});
  const NormSpec spec{NormKind::rms, 0, true};
  const Tensor dx = empty({1, 2}), dw = empty(acc(), {2});
  lab->norm_forward(stream, y, stats, View(x), w, {}, spec);
  EXPECT_EQ(lab.read(y), rounded(dtype(), {1 + small, -1 - small}));
  // dx = rstd (g - h mean(g h)) with g = dy (1 + w), h = x, rstd = 1: here g (1, 0) -> (g, g) / 2.
  lab->norm_backward(stream, dx, dw, {}, lab.tensor(dtype(), {1, 2}, {1, 0}), View(x), stats, w,
                     spec, false, false, workspace(1, 2));
  EXPECT_EQ(lab.read(dx), rounded(dtype(), {(1 + small) / 2, (1 + small) / 2}));
}

// As for the norms of queries and keys: [N, heads, D] inside a fused tensor.
TEST_P(NormTest, RowsOfThreeDimensionsMayBeStrided) {
  const Shape shape{11, 3, 6};
  const Input x = rows(shape);
  const Input w = random({6});
  const Input dy = random(shape);
  const Padded wide_x = padded(shape, x.values);
  const Padded wide_dy = padded(shape, dy.values);
  const Padded y = padded(shape);
  const Padded dx = padded(shape);
  const Tensor stats = empty(acc(), {33, 2});
  const Tensor dw = empty({6});
  for (const NormSpec& spec : kSpecs) {
    lab->norm_forward(stream, y, stats, wide_x.view, View(w), {}, spec);
    lab->norm_backward(stream, dx, dw, {}, wide_dy.view, wide_x.view, stats, View(w), spec, false,
                       false, workspace(33, 6));
    const auto grads = reference::norm_backward(dy.values, x.values, w.values, spec);
    expect_values(y.view, reference::norm(x.values, w.values, {}, spec).y, 2);
    expect_values(dx.view, grads.dx, 4);
    expect_values(dw, grads.dw, 4);
  }
  expect_gaps_untouched(y);
  expect_gaps_untouched(dx);
}

TEST_P(NormTest, AddNormIsTheSumThenTheNormOfWhatWasStored) {
  const std::int64_t n = 12;
  const std::int64_t c = 37;
  const Input samples = input(DType::i64, {3}, {4, 9, 2});
  for (const double p : {0.0, 0.25})
    for (const NormSpec& spec : kSpecs) {
      const Input x = rows({n, c});
      const Input branch = random({n, c});
      const Input w = random({c});
      const Input b = random({c});
      const Tensor y = empty({n, c});
      const Tensor r = empty({n, c});
      const Tensor stats = empty(acc(), {n, 2});
      const DropoutSpec dropout{p, 77, View(samples), 5};
      lab->add_norm_forward(stream, y, r, stats, View(x), View(branch), View(w), View(b), spec,
                            dropout);
      const Tensor sum = empty({n, c});
      lab->add_dropout(stream, sum, View(x), View(branch), dropout);
      EXPECT_EQ(lab.bytes(r), lab.bytes(sum));
      const Tensor again = empty({n, c});
      const Tensor stats_again = empty(acc(), {n, 2});
      lab->norm_forward(stream, again, stats_again, r, View(w), View(b), spec);
      EXPECT_EQ(lab.bytes(y), lab.bytes(again)) << "recomputing from r must give equal bits";
      EXPECT_EQ(lab.bytes(stats), lab.bytes(stats_again));
    }
}

TEST_P(NormTest, TheSumMayReplaceTheResidual) {
  const Input x = rows({5, 8});
  const Input branch = random({5, 8});
  const Input w = random({8});
  const Tensor y = empty({5, 8});
  const Tensor stats = empty(acc(), {5, 2});
  lab->add_norm_forward(stream, y, x, stats, View(x), View(branch), View(w), {}, kSpecs[0], {});
  expect_values(View(x), reference::sum(x.values, branch.values));
}

TEST_P(NormTest, NoRowsGiveZeroWeightGradients) {
  const Tensor none = empty({0, 4});
  const Tensor stats = empty(acc(), {0, 2});
  const Input w = random({4});
  const Tensor dw = empty({4});
  lab->norm_forward(stream, none, stats, none, View(w), {}, kSpecs[0]);
  lab->norm_backward(stream, none, dw, {}, none, none, stats, View(w), kSpecs[0], false, false,
                     workspace(0, 4));
  EXPECT_EQ(lab.read(dw), Values(4, 0.0));
}

TESSERA_KERNEL_SUITE(NormTest);

}  // namespace
}  // namespace tessera::test
