// A NaN that goes in comes out: an op that hid one would let a broken run go on unseen.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/attention_run.h"
#include "tests/support/kernel_test.h"

namespace tessera::test {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

class NonfiniteTest : public KernelTest {
 protected:
  // Random values with `bad` at one place.
  Tensor spoiled(const Shape& shape, std::size_t at, double bad) {
    Values values = random(shape).values;
    values[at] = bad;
    return lab.tensor(dtype(), shape, values);
  }
  // Whether the elements [begin, end) are NaN and no others.
  void expect_nan_only(const View& x, std::size_t begin, std::size_t end, const char* what = "") {
    const Values values = lab.read(x);
    for (std::size_t i = 0; i < values.size(); ++i)
      EXPECT_EQ(std::isnan(values[i]), i >= begin && i < end) << what << " " << i;
  }
};

TEST_P(NonfiniteTest, Gemm) {
  const Tensor d = empty({3, 5});
  const Tensor bias = lab.full(dtype(), {5}, 1);
  const Tensor aux = empty({3, 5});
  lab->gemm(stream, d, spoiled({3, 4}, 1 * 4 + 2, kNan).view(), random({4, 5}).tensor.view(),
            {.epilogue = Epilogue::bias_gelu, .bias = bias, .aux = aux});
  expect_nan_only(d, 5, 10);
  expect_nan_only(aux, 5, 10);
  lab->gemm(stream, d, spoiled({3, 4}, 0, kInfinity).view(), lab.full(dtype(), {4, 5}, 0).view(),
            {});
  expect_nan_only(d, 0, 5, "infinity times zero");
}

TEST_P(NonfiniteTest, Activations) {
  const Tensor x = spoiled({2, 6}, 7, kNan);
  const Tensor y = empty({2, 3});
  lab->gated_activation_forward(stream, y, x, Activation::silu);
  expect_nan_only(y, 4, 5);
  lab->activation_forward(stream, x, x, Activation::gelu);
  expect_nan_only(x, 7, 8);
  const Tensor infinite = lab.tensor(dtype(), {2}, {kInfinity, 100});
  lab->activation_forward(stream, infinite, infinite, Activation::gelu);
  EXPECT_EQ(lab.read(infinite), (Values{kInfinity, 100}));
}

TEST_P(NonfiniteTest, Norms) {
  const Tensor w = lab.full(dtype(), {4}, 1);
  const Tensor workspace = lab.workspace(lab->norm_workspace_bytes(3, 4, dtype()));
  for (const NormKind kind : {NormKind::layer, NormKind::rms})
    for (const double bad : {kNan, kInfinity}) {
      const Tensor x = spoiled({3, 4}, 4 + 2, bad);
      const Tensor y = empty({3, 4});
      const Tensor stats = empty(acc(), {3, 2});
      lab->norm_forward(stream, y, stats, x, w, {}, {kind, 1e-5});
      const Values values = lab.read(y);
      EXPECT_TRUE(std::isnan(values[4 + 2]));
      EXPECT_TRUE(std::isfinite(values[0]) && std::isfinite(values[8])) << "other rows stay";
      const Tensor dw = empty({4});
      lab->norm_backward(stream, y, dw, {}, random({3, 4}).tensor, x, stats, w, {kind, 1e-5}, false,
                         false, workspace);
      EXPECT_TRUE(std::isnan(lab.read(dw)[2]));
    }
}

TEST_P(NonfiniteTest, Attention) {
  const AttentionCase c{.name = "", .S = 3, .T = 3, .B = 1, .H = 1, .K = 1, .D = 2};
  for (const double bad : {kNan, kInfinity}) {
    reference::AttentionInputs x{random(c.q_shape()).values, random(c.k_shape()).values,
                                 random(c.k_shape()).values};
    x.q[2] = bad;  // the second query
    if (x.k[0] < 0) x.k[0] = -x.k[0];
    AttentionRun run(lab, c, dtype(), x);
    run.forward();
    expect_nan_only(run.o.view, 2, 4, "o");
    expect_nan_only(run.lse, 1, 2, "lse");
    run.backward(Values(6, 1.0));
    EXPECT_TRUE(std::isnan(lab.read(run.dq.view)[2]));
    EXPECT_TRUE(std::isnan(lab.read(run.dk.view)[0]));
    EXPECT_TRUE(std::isnan(lab.read(run.dv.view)[0]));
  }
}

TEST_P(NonfiniteTest, CrossEntropy) {
  const Tensor labels = lab.tensor(DType::i32, {3}, {0, 1, 2});
  const Tensor ones = lab.full(DType::f32, {3}, 1);
  const Tensor scale = lab.full(DType::f64, {1}, 1);
  for (const double bad : {kNan, kInfinity}) {
    const Tensor logits = spoiled({3, 5}, 5 + 3, bad);  // not the label's own column
    const Tensor stats = empty(acc(), {3, 3});
    const Tensor loss = empty(acc(), {3});
    const Tensor sum = lab.full(DType::f64, {1}, 0);
    lab->softmax_stats(stream, stats, logits, labels, {0});
    lab->cross_entropy(stream, loss, logits, logits, stats, labels, ones, scale, {0});
    expect_nan_only(loss, 1, 2, "loss");
    expect_nan_only(logits, 5, 10, "dlogits");
    lab->masked_sum(stream, sum, loss, ones, false);
    expect_nan_only(sum, 0, 1, "sum");
  }
}

// Columns of minus infinity are how a sampler or a mask forbids tokens: they have no weight.
TEST_P(NonfiniteTest, MinusInfinityInLogitsIsNoError) {
  const Tensor logits = lab.tensor(dtype(), {1, 3}, {0, -kInfinity, 0});
  const Tensor labels = lab.tensor(DType::i32, {1}, {0});
  const Tensor stats = empty(acc(), {3, 1});
  const Tensor loss = empty(acc(), {1});
  lab->softmax_stats(stream, stats, logits, labels, {0});
  lab->cross_entropy(stream, loss, logits, logits, stats, labels, lab.full(DType::f32, {1}, 1),
                     lab.full(DType::f64, {1}, 1), {0});
  expect_values(loss, {std::log(2)});
  EXPECT_EQ(lab.read(logits), (Values{-0.5, 0, 0.5}));
}

TEST_P(NonfiniteTest, GradientNorm) {
  const Tensor out = lab.full(DType::f64, {1}, 0);
  const Tensor workspace = lab.workspace(lab->sum_squares_workspace_bytes(5));
  lab->sum_squares(stream, out, spoiled({5}, 3, kNan), false, workspace);
  expect_nan_only(out, 0, 1);
  lab->sum_squares(stream, out, spoiled({5}, 3, kInfinity), false, workspace);
  EXPECT_EQ(lab.read(out), Values{kInfinity});
}

TEST_P(NonfiniteTest, Embedding) {
  const Tensor y = empty({2, 2});
  const Tensor ids = lab.tensor(DType::i32, {2}, {1, 0});
  lab->embedding_forward(stream, y, ids, spoiled({2, 2}, 3, kNan), 0, false);
  expect_nan_only(y, 1, 2);
  const Tensor dtable = empty({2, 2});
  lab->embedding_backward(stream, dtable, y, ids, 0, false,
                          lab.workspace(lab->embedding_workspace_bytes(2)));
  expect_nan_only(dtable, 3, 4);
}

TESSERA_KERNEL_SUITE(NonfiniteTest);

}  // namespace
}  // namespace tessera::test
