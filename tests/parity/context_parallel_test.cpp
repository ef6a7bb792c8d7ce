// Context parallelism computes what one rank does: alone and with every other axis, with windows,
// packed documents and dropout, whatever is computed again in backward, in f64 where rounding
// cannot hide a fault.
#include <gtest/gtest.h>

#include "tests/parity/context_case.h"

namespace tessera {
namespace {

void expect_context_cases(const std::vector<ContextCase>& cases) {
  test::LayoutResults results;
  constexpr int kSteps = 3;
  for (const ContextCase& c : of_every_kind(cases)) {
    SCOPED_TRACE(c.text());
    test::expect_same_layouts(test::run_layout(c.session(DType::f64), kSteps),
                              test::alone(results, c, DType::f64, kSteps), {1e-11, 1e-11, 1e-11});
    if (testing::Test::HasFailure()) return;
  }
}

TEST(ContextParallel, AloneEqualsOneRank) {
  expect_context_cases({{},
                        {.family = "llama"},
                        {.family = "qwen3"},
                        {.family = "llama", .context = 3},
                        {.family = "llama", .context = 4},
                        {.context = 6, .dropout = 0.1}});
}

// A window shorter than a chunk, as long, longer; chunks of six positions.
TEST(ContextParallel, WindowsDocumentsAndDropoutFollowGlobalPositions) {
  for (const std::int64_t window : {1, 5, 6, 17})
    expect_context_cases({{.family = "llama", .window = window, .dropout = 0.1}});
  expect_context_cases({{.family = "llama", .documents = true},
                        {.documents = true, .dropout = 0.2},
                        {.family = "qwen3", .context = 3, .window = 5, .documents = true},
                        {.family = "llama", .tensor = 2, .documents = true, .dropout = 0.1}});
}

TEST(ContextParallel, WithOtherAxesEqualsOneRank) {
  expect_context_cases({{.tensor = 2, .dropout = 0.1},
                        {.tensor = 2, .sequence_parallel = true, .dropout = 0.1},
                        {.family = "llama", .context = 3, .tensor = 4, .sequence_parallel = true},
                        {.pipeline = 2, .dropout = 0.1},
                        {.family = "llama", .data = 2, .sharding = Sharding::optimizer},
                        {.data = 2, .sharding = Sharding::parameters, .dropout = 0.1},
                        {.family = "llama", .tensor = 4, .dropout = 0.1, .tensor_2d = 2}});
}

TEST(ContextParallel, WithAllAxesEqualsOneRank) {
  expect_context_cases({{.family = "llama",
                         .tensor = 2,
                         .sequence_parallel = true,
                         .pipeline = 2,
                         .data = 2,
                         .sharding = Sharding::optimizer,
                         .window = 7,
                         .documents = true,
                         .dropout = 0.1}});
}

TEST(ContextParallel, RecomputeAndSplitBackwardEqualOneRank) {
  for (const auto recompute : {RecomputeGranularity::selective, RecomputeGranularity::full})
    expect_context_cases(
        {{.family = "qwen3", .dropout = 0.1, .recompute = recompute},
         {.tensor = 2, .sequence_parallel = true, .dropout = 0.1, .recompute = recompute}});
  expect_context_cases({{.pipeline = 2, .dropout = 0.1, .schedule = ScheduleKind::zb_h1},
                        {.family = "llama",
                         .pipeline = 2,
                         .recompute = RecomputeGranularity::selective,
                         .schedule = ScheduleKind::zb_h1}});
}

// One kind for each layer; key/value heads that ranks hold copies of, and shares of one and two
// heads.
TEST(ContextParallel, KindsByLayerAndUnevenHeadsEqualOneRank) {
  test::LayoutResults results;
  for (const ContextCase& c : std::vector<ContextCase>{
           {.family = "llama", .kinds = {CpCommType::p2p, CpCommType::a2a}},
           {.context = 4,
           .dropout = 0.1,
           .kinds = {CpCommType::a2a_p2p, CpCommType::all_gather},
           .sizes = {2, 2}},
           {.family = "llama", .context = 3, .kinds = {CpCommType::a2a}},
           {.family = "llama", .context = 4, .kinds = {CpCommType::a2a}, .groups = 1},
           {.family = "qwen3",
           .context = 3,
           .dropout = 0.1,
           .kinds = {CpCommType::a2a},
           .groups = 4}}) {
    SCOPED_TRACE(c.text());
    test::expect_same_layouts(test::run_layout(c.session(DType::f64), 3),
                              test::alone(results, c, DType::f64, 3), {1e-11, 1e-11, 1e-11});
  }
}

// The runs of the documentation's promise: twenty steps.
TEST(ContextParallel, TwentyStepsEqualOneRank) {
  test::LayoutResults results;
  for (const ContextCase& c :
       of_every_kind({{.family = "llama", .context = 4, .window = 9, .dropout = 0.1}})) {
    SCOPED_TRACE(c.text());
    test::expect_same_layouts(test::run_layout(c.session(DType::f64), 20),
                              test::alone(results, c, DType::f64, 20), {1e-9, 1e-9, 1e-9});
  }
}

// Masks are drawn so that the ranks' counts of labels differ; per token they weigh alike.
TEST(ContextParallel, LossesPerTokenEqualOneRank) {
  const ContextCase c{.family = "llama", .data = 2, .dropout = 0.1};
  const auto run = [](const ContextCase& each) {
    return test::run_layout(each.session(DType::f64), 3, {.average = LossAverage::per_token});
  };
  for (const ContextCase& each : of_every_kind({c})) {
    SCOPED_TRACE(each.text());
    test::expect_same_layouts(run(each), run(c.alone()), {1e-11, 1e-11, 1e-11});
  }
}

TEST(ContextParallel, EvaluationEqualsOneRank) {
  const auto evaluate = [](int context, CpCommType kind) {
    const SessionOptions options = ContextCase{
        .family = "llama",
        .context = context,
        .window = 7,
        .dropout = 0.2,
        .kinds = {kind}}.session(DType::f64);
    StepResult result;
    run_ranks(context, 1, [&](Rank& rank) {
      Session session(options, rank);
      std::int64_t sample = 0;
      HostBatch batch;
      const auto next = [&]() -> const HostBatch& {
        batch = test::random_batch(options.shape, options.model.vocab_size, sample);
        sample += options.shape.batch;
        return batch;
      };
      const StepResult step = evaluate_step(session, next, LossAverage::per_token);
      if (rank.rank == 0) result = step;
    });
    return result;
  };
  const StepResult one = evaluate(1, CpCommType::p2p);
  for (const CpCommType kind : {CpCommType::p2p, CpCommType::all_gather, CpCommType::a2a}) {
    const StepResult two = evaluate(2, kind);
    EXPECT_NEAR(two.loss, one.loss, 1e-12 * one.loss) << to_string(kind);
    EXPECT_EQ(two.tokens, one.tokens);
  }
}

}  // namespace
}  // namespace tessera
