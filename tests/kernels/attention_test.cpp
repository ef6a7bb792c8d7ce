// Attention against the plain reference: shapes around the block sizes, grouped heads, positions
// that do not start at zero, windows, packed documents, dropout, strided tensors.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "tests/support/attention_run.h"
#include "tests/support/kernel_test.h"

namespace tessera::test {
namespace {

class AttentionTest : public KernelTest {
 protected:
  reference::AttentionInputs inputs_of(const AttentionCase& c) {
    return {random(c.q_shape()).values, random(c.k_shape()).values, random(c.v_shape()).values};
  }

  void expect_reference(const AttentionCase& c, double factor = 1) {
    SCOPED_TRACE(c.name);
    const reference::AttentionInputs x = inputs_of(c);
    AttentionRun run(lab, c, dtype(), x);
    run.forward();
    const reference::Attention expected = reference::attention(c, x);
    expect_values(run.o.view, expected.o, 2, "o");
    expect_values(run.lse.view(), expected.lse, 2, "lse");

    const Values d_o = random(c.o_shape()).values;
    run.backward(d_o);
    const reference::AttentionGradients grads = reference::attention_backward(c, x, d_o);
    // Gradients of scores can cancel to nothing, as with one visible key: those of dv tell the
    // size.
    const double floor = std::max(0.1 * norm_of(grads.dv), 1e-30);
    EXPECT_LE(relative_error(lab.read(run.dq.view), grads.dq, floor), tolerance(3 * factor));
    EXPECT_LE(relative_error(lab.read(run.dk.view), grads.dk, floor), tolerance(3 * factor));
    EXPECT_LE(relative_error(lab.read(run.dv.view), grads.dv), tolerance(3 * factor));
    for (const Padded* each : {&run.o, &run.dq, &run.dk, &run.dv}) expect_gaps_untouched(*each);
  }
};

TEST_P(AttentionTest, ShapesAroundTheBlockSizes) {
  expect_reference({.name = "one of everything", .S = 1, .T = 1, .B = 1, .H = 1, .K = 1, .D = 1});
  expect_reference({.name = "odd sizes", .S = 7, .T = 7, .B = 3, .H = 2, .K = 2, .D = 5});
  expect_reference({.name = "whole blocks", .S = 128, .T = 128, .B = 1, .H = 1, .K = 1, .D = 16});
  expect_reference({.name = "beyond a block", .S = 65, .T = 65, .B = 1, .H = 2, .K = 1, .D = 8});
  expect_reference(
      {.name = "many keys", .S = 3, .T = 259, .B = 1, .H = 1, .K = 1, .D = 24, .causal = false});
  expect_reference(
      {.name = "many queries", .S = 131, .T = 2, .B = 2, .H = 1, .K = 1, .D = 3, .causal = false});
}

TEST_P(AttentionTest, QueryHeadsShareKeyHeads) {
  expect_reference({.name = "groups", .S = 19, .T = 19, .B = 2, .H = 6, .K = 2, .D = 8});
  expect_reference(
      {.name = "one key head", .S = 70, .T = 70, .B = 1, .H = 5, .K = 1, .D = 4, .causal = false});
}

TEST_P(AttentionTest, PositionsNeedNotStartAtZero) {
  // One token against a cache, a context-parallel chunk against an earlier and a later one, and a
  // chunk that lies across.
  expect_reference(
      {.name = "decode", .S = 1, .T = 33, .B = 2, .H = 4, .K = 2, .D = 8, .q_start = 32});
  expect_reference({.name = "earlier keys",
                    .S = 16,
                    .T = 16,
                    .B = 1,
                    .H = 2,
                    .K = 2,
                    .D = 4,
                    .q_start = 48,
                    .kv_start = 16});
  expect_reference({.name = "later keys",
                    .S = 16,
                    .T = 16,
                    .B = 1,
                    .H = 2,
                    .K = 2,
                    .D = 4,
                    .q_start = 16,
                    .kv_start = 32});
  expect_reference({.name = "across",
                    .S = 80,
                    .T = 150,
                    .B = 1,
                    .H = 1,
                    .K = 1,
                    .D = 4,
                    .q_start = 90,
                    .kv_start = 30});
}

TEST_P(AttentionTest, WindowsForgetOldKeys) {
  expect_reference(
      {.name = "causal window", .S = 90, .T = 90, .B = 1, .H = 2, .K = 1, .D = 6, .window = 13});
  expect_reference(
      {.name = "window of one", .S = 9, .T = 9, .B = 2, .H = 1, .K = 1, .D = 4, .window = 1});
  expect_reference({.name = "not causal",
                    .S = 20,
                    .T = 140,
                    .B = 1,
                    .H = 1,
                    .K = 1,
                    .D = 4,
                    .causal = false,
                    .window = 5,
                    .q_start = 100});
  expect_reference({.name = "rows beyond the window see nothing",
                    .S = 12,
                    .T = 6,
                    .B = 1,
                    .H = 1,
                    .K = 1,
                    .D = 4,
                    .window = 3,
                    .q_start = 4});
}

TEST_P(AttentionTest, DocumentsDoNotSeeEachOther) {
  expect_reference({.name = "three documents",
                    .S = 75,
                    .T = 75,
                    .B = 2,
                    .H = 2,
                    .K = 1,
                    .D = 4,
                    .documents = {0, 5, 66, 75, 0, 31, 32, 75}});
  expect_reference({.name = "an empty document",
                    .S = 9,
                    .T = 9,
                    .B = 1,
                    .H = 1,
                    .K = 1,
                    .D = 4,
                    .causal = false,
                    .documents = {0, 4, 4, 9}});
  expect_reference({.name = "chunks of a packed row",
                    .S = 10,
                    .T = 20,
                    .B = 1,
                    .H = 1,
                    .K = 1,
                    .D = 4,
                    .q_start = 25,
                    .kv_start = 10,
                    .documents = {0, 12, 28, 40}});
  expect_reference({.name = "documents and a window",
                    .S = 40,
                    .T = 40,
                    .B = 1,
                    .H = 1,
                    .K = 1,
                    .D = 4,
                    .window = 7,
                    .documents = {0, 10, 30, 40}});
}

TEST_P(AttentionTest, ChunksDoNotSeeEachOther) {
  expect_reference(
      {.name = "chunks", .S = 300, .T = 300, .B = 1, .H = 2, .K = 1, .D = 4, .chunk = 70});
  expect_reference({.name = "a part of the positions, with a window",
                    .S = 40,
                    .T = 60,
                    .B = 2,
                    .H = 2,
                    .K = 2,
                    .D = 4,
                    .window = 9,
                    .chunk = 16,
                    .q_start = 25,
                    .kv_start = 10});
  expect_reference({.name = "chunks of documents",
                    .S = 75,
                    .T = 75,
                    .B = 2,
                    .H = 2,
                    .K = 1,
                    .D = 4,
                    .chunk = 8,
                    .documents = {0, 5, 66, 75, 0, 31, 32, 75}});
  expect_reference({.name = "not causal",
                    .S = 20,
                    .T = 20,
                    .B = 1,
                    .H = 1,
                    .K = 1,
                    .D = 4,
                    .causal = false,
                    .chunk = 6});
}

TEST_P(AttentionTest, DropoutFollowsGlobalCoordinates) {
  expect_reference({.name = "plain",
                    .S = 33,
                    .T = 33,
                    .B = 2,
                    .H = 2,
                    .K = 1,
                    .D = 4,
                    .p = 0.3,
                    .samples = {5, 1099511627781}});
  expect_reference({.name = "offsets",
                    .S = 70,
                    .T = 135,
                    .B = 1,
                    .H = 2,
                    .K = 2,
                    .D = 4,
                    .q_start = 101,
                    .kv_start = 33,
                    .p = 0.5,
                    .samples = {7},
                    .head_start = 6});
}

TEST_P(AttentionTest, TensorsMayBeStrided) {
  expect_reference({.name = "strided",
                    .S = 66,
                    .T = 66,
                    .B = 2,
                    .H = 4,
                    .K = 2,
                    .D = 6,
                    .window = 20,
                    .padded = true});
}

TEST_P(AttentionTest, ValuesMayHaveAnotherHeadSize) {
  expect_reference({.name = "wide", .S = 70, .T = 70, .B = 2, .H = 4, .K = 2, .D = 6, .E = 11});
  expect_reference({.name = "narrow and strided",
                    .S = 20,
                    .T = 140,
                    .B = 1,
                    .H = 2,
                    .K = 1,
                    .D = 24,
                    .E = 16,
                    .q_start = 120,
                    .p = 0.2,
                    .samples = {3},
                    .padded = true});
}

TEST_P(AttentionTest, ScoresMayBeCapped) {
  expect_reference(
      {.name = "cap", .S = 70, .T = 70, .B = 2, .H = 4, .K = 2, .D = 6, .scale = 3, .softcap = 5});
  expect_reference({.name = "cap, window, documents, dropout",
                    .S = 40,
                    .T = 40,
                    .B = 1,
                    .H = 1,
                    .K = 1,
                    .D = 4,
                    .window = 9,
                    .documents = {0, 10, 30, 40},
                    .p = 0.3,
                    .samples = {6},
                    .scale = 2,
                    .softcap = 1});
}

// As a layer calls it: q, k and v are columns of one fused projection.
TEST_P(AttentionTest, ReadsQueriesKeysAndValuesFromOneFusedTensor) {
  const AttentionCase c{.name = "fused", .S = 10, .T = 10, .B = 2, .H = 4, .K = 2, .D = 3};
  const Input fused = random({c.S, c.B, (c.H + 2 * c.K) * c.D});
  const auto part = [&](std::int64_t first, std::int64_t heads) {
    return View(fused).slice(2, first * c.D, heads * c.D).split_last({heads, c.D});
  };
  const View q = part(0, c.H);
  const View k = part(c.H, c.K);
  const View v = part(c.H + c.K, c.K);
  const AttentionSetup setup = set_up(lab, c, dtype());
  const Tensor o = empty(c.q_shape());
  const Tensor lse = empty(acc(), {c.B, c.H, c.S});
  lab->attention_forward(stream, o, lse, q, k, v, setup.spec, setup.workspace);
  const auto expected = reference::attention(c, {lab.read(q), lab.read(k), lab.read(v)});
  expect_values(o.view(), expected.o, 2);
}

TEST_P(AttentionTest, WithoutAnyKeyTheOutputIsZeroAndLseMinusInfinity) {
  for (const std::int64_t keys : {0, 5}) {
    const AttentionCase c{
        .name = "none", .S = 3, .T = keys, .B = 1, .H = 2, .K = 1, .D = 4, .kv_start = 10};
    const reference::AttentionInputs x = inputs_of(c);
    AttentionRun run(lab, c, dtype(), x);
    run.forward();
    EXPECT_EQ(lab.read(run.o.view), Values(24, 0.0));
    EXPECT_EQ(lab.read(run.lse.view()), Values(6, -std::numeric_limits<double>::infinity()));
    run.backward(Values(24, 1.0));
    EXPECT_EQ(lab.read(run.dq.view), Values(24, 0.0));
    EXPECT_EQ(lab.read(run.dk.view), Values(x.k.size(), 0.0));
    EXPECT_EQ(lab.read(run.dv.view), Values(x.v.size(), 0.0));
  }
}

// The keys in two parts, with all keys' output and log-sum-exp: the gradients of both add up to
// those of one call.
TEST_P(AttentionTest, GradientsOfPartsAddUp) {
  const AttentionCase c{
      .name = "whole", .S = 70, .T = 90, .B = 2, .H = 4, .K = 2, .D = 5, .E = 7, .q_start = 20};
  const reference::AttentionInputs x = inputs_of(c);
  const Values d_o = random(c.o_shape()).values;
  const reference::AttentionGradients grads = reference::attention_backward(c, x, d_o);
  for (const DType gradients : {dtype(), acc()}) {
    AttentionRun run(lab, c, dtype(), x, gradients);
    run.forward();
    for (const Padded* each : {&run.dq, &run.dk, &run.dv})
      lab.write(each->view, Values(static_cast<std::size_t>(each->view.numel()), 0));
    const Tensor grad = lab.tensor(dtype(), c.o_shape(), d_o);
    for (const auto& [begin, length] : {std::pair(0, 33), std::pair(33, 57)}) {
      AttentionSpec spec = run.setup.spec;
      spec.kv_start = begin;
      const auto part = [&](const View& keys) { return keys.slice(0, begin, length); };
      lab->attention_backward(stream, run.dq.view, part(run.dk.view), part(run.dv.view),
                              grad.view(), run.q.view, part(run.k.view), part(run.v.view),
                              run.o.view, run.lse.view(), spec, run.setup.workspace,
                              {.dq = true, .dk_dv = begin > 0});
    }
    const auto expect_near = [&](const Padded& got, const Values& expected) {
      EXPECT_LE(relative_error(lab.read(got.view), expected), tolerance(4));
    };
    expect_near(run.dq, grads.dq);
    expect_near(run.dk, grads.dk);
    expect_near(run.dv, grads.dv);
    run.backward(d_o, {.dq = false, .dk_dv = true});
    Values twice = grads.dk;
    for (double& each : twice) each *= 2;
    expect_near(run.dk, twice);
    expect_near(run.dq, grads.dq);
  }
}

TEST_P(AttentionTest, GradientsInTheAccumulatorsTypeAreNotRounded) {
  const AttentionCase c{.name = "f32", .S = 20, .T = 20, .B = 1, .H = 2, .K = 1, .D = 4};
  const reference::AttentionInputs x = inputs_of(c);
  const Values d_o = random(c.o_shape()).values;
  AttentionRun run(lab, c, dtype(), x, acc());
  run.forward();
  run.backward(d_o);
  const reference::AttentionGradients grads = reference::attention_backward(c, x, d_o);
  expect_values(run.dv.view, grads.dv, 4);
}

// Scores of several hundred keep an absolute error of hundreds of roundings.
TEST_P(AttentionTest, LargeScoresDoNotOverflow) {
  expect_reference({.name = "large", .S = 8, .T = 8, .B = 1, .H = 1, .K = 1, .D = 4, .scale = 100},
                   300);
}

TESSERA_KERNEL_SUITE(AttentionTest);

}  // namespace
}  // namespace tessera::test
