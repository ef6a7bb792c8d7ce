// Context parallelism computes what one rank does: alone and with every other axis, with windows,
// packed documents and dropout, whatever is computed again in backward, in f64 where rounding
// cannot hide a fault.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include "tests/support/layout_cases.h"
#include "tests/support/step_counts.h"
#include "tests/support/tiny_models.h"

namespace tessera {
namespace {

struct ContextCase {
  std::string family = "gpt";
  int context = 2;
  int tensor = 1;
  bool sequence_parallel = false;
  int pipeline = 1;
  int data = 1;
  Sharding sharding = Sharding::none;
  std::int64_t window = 0;
  bool documents = false;
  double dropout = 0;
  RecomputeGranularity recompute = RecomputeGranularity::none;
  ScheduleKind schedule = ScheduleKind::automatic;
  int tensor_2d = 0;
  int microbatches = 2;
  std::vector<CpCommType> kinds = {CpCommType::p2p};
  std::vector<int> sizes = {};
  std::int64_t groups = 2;

  std::string text() const {
    std::string kind_names;
    for (const CpCommType kind : kinds) kind_names += std::string(to_string(kind)) + " ";
    return fmt::format(
        "{}{} groups {} context {} tensor {}{}{} pipeline {} data {} sharding {} window {}{} "
        "dropout {} "
        "recompute {} schedule {} microbatches {}",
        kind_names, family, groups, context, tensor, tensor_2d > 0 ? " 2-D" : "",
        sequence_parallel ? " sp" : "", pipeline, data, static_cast<int>(sharding), window,
        documents ? " documents" : "", dropout, static_cast<int>(recompute),
        static_cast<int>(schedule), microbatches);
  }
  SessionOptions session(DType dtype) const {
    SessionOptions options = test::tiny_session(family);
    options.shape = {24, 2};
    options.microbatches = microbatches;
    options.documents = documents;
    options.recompute.granularity = recompute;
    options.pipeline.schedule = schedule;
    ModelOptions& model = options.model;
    model.dtype = dtype;
    model.num_layers = 2;
    model.num_query_groups = groups;
    model.attention_window = window;
    model.attention_dropout = model.hidden_dropout = dropout;
    ParallelOptions& parallel = options.parallel;
    parallel.context = context;
    parallel.cp_comm_types = kinds;
    parallel.hierarchical_context = sizes;
    parallel.tensor = tensor;
    parallel.tensor_2d = tensor_2d;
    parallel.sequence_parallel = sequence_parallel;
    parallel.pipeline = pipeline;
    parallel.data = data;
    parallel.sharding = sharding;
    options.optimizer.adam_eps = 1e-3;
    return options;
  }
  ContextCase alone() const {
    ContextCase one{.family = family,
                    .context = 1,
                    .window = window,
                    .documents = documents,
                    .dropout = dropout,
                    .groups = groups};
    one.microbatches = microbatches * data;
    return one;
  }
};

// Each case with every kind of exchange that it has heads for.
std::vector<ContextCase> of_every_kind(const std::vector<ContextCase>& cases) {
  std::vector<ContextCase> all;
  for (ContextCase c : cases) {
    const int heads = 4 / (c.tensor_2d > 0 ? c.tensor_2d : c.tensor);
    for (const CpCommType kind : {CpCommType::p2p, CpCommType::all_gather, CpCommType::a2a}) {
      c.kinds = {kind};
      if (kind != CpCommType::a2a || c.context <= heads) all.push_back(c);
    }
    c.kinds = {CpCommType::a2a_p2p};
    c.sizes = {2, c.context / 2};
    if (c.context > 2 && c.context % 2 == 0 && heads >= 2) all.push_back(c);
  }
  return all;
}

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

// The second rank's positions are all masked; its loss is 0 and nothing is divided by it.
TEST(ContextParallel, ARankMayHaveNoLabelThatCounts) {
  const auto loss = [](int context, CpCommType kind) {
    const SessionOptions options = ContextCase{
        .family = "llama",
        .context = context,
        .microbatches = 1,
        .kinds = {kind}}.session(DType::f64);
    double result = 0;
    run_ranks(context, 1, [&](Rank& rank) {
      Session session(options, rank);
      HostBatch batch = test::random_batch(options.shape, options.model.vocab_size, 0);
      for (std::int64_t b = 0; b < options.shape.batch; ++b)
        for (std::int64_t s = 6; s < 18; ++s)
          batch.loss_mask[static_cast<std::size_t>(b * options.shape.seq + s)] = 0;
      const StepResult step = compute_gradients(
          session, [&]() -> const HostBatch& { return batch; }, LossAverage::per_token);
      EXPECT_GT(step.grad_norm, 0);
      if (rank.rank == context - 1) result = step.loss;
    });
    return result;
  };
  const double one = loss(1, CpCommType::p2p);
  for (const CpCommType kind : {CpCommType::p2p, CpCommType::all_gather, CpCommType::a2a})
    EXPECT_NEAR(loss(2, kind), one, 1e-12 * one) << to_string(kind);
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

// Bytes that one layer moves on a rank in forward, and in forward and backward.
struct Moved {
  double forward, both;
};

Moved layer_bytes(const ContextCase& c, DType dtype) {
  SessionOptions options = c.session(dtype);
  options.shape = {32, 2};
  options.microbatches = 1;
  const auto bytes = [&](std::int64_t layers, bool both) {
    const test::StepCounts counts = test::step_counts(options, layers);
    double sum = 0;
    for (const auto& [call, count] : both ? counts.both : counts.forward) {
      if (call == "send") sum += double(count.bytes);
      if (call == "all_gather" || call == "reduce_scatter" || call == "all_to_all_rows")
        sum += test::ring_bytes(call, double(count.bytes), c.context);
    }
    return sum;
  };
  return {bytes(3, false) - bytes(2, false), bytes(3, true) - bytes(2, true)};
}

// Per layer and rank, with n rows of K key/value heads of D channels: forward (c - 1) n 2 K D
// elements, backward the same for the keys and values once more and for their gradients, in f32.
TEST(ContextParallel, KeysValuesAndTheirGradientsAreAllThatMoves) {
  for (const CpCommType kind : {CpCommType::all_gather, CpCommType::p2p})
    for (const int context : {2, 4}) {
      const ContextCase c{.family = "llama", .context = context, .kinds = {kind}};
      const double elements = (context - 1) * (32.0 * 2 / context) * 2 * 2 * 8;
      const Moved f32 = layer_bytes(c, DType::f32), bf16 = layer_bytes(c, DType::bf16);
      EXPECT_DOUBLE_EQ(f32.forward, elements * 4);
      EXPECT_DOUBLE_EQ(f32.both, 3 * elements * 4);
      EXPECT_DOUBLE_EQ(bf16.forward, elements * 2);
      EXPECT_DOUBLE_EQ(bf16.both, elements * (2 + 2 + 4));
    }
}

// (c - 1) / c n (2 H + 2 K) D elements each way.
TEST(ContextParallel, HeadsAndPositionsAreAllThatMoves) {
  for (const int context : {2, 4}) {
    const ContextCase c{
        .family = "llama", .context = context, .kinds = {CpCommType::a2a}, .groups = 4};
    const double elements = (context - 1.0) / context * (32.0 * 2 / context) * (2 * 4 + 2 * 4) * 8;
    const Moved moved = layer_bytes(c, DType::bf16);
    EXPECT_DOUBLE_EQ(moved.forward, elements * 2);
    EXPECT_DOUBLE_EQ(moved.both, 2 * elements * 2);
  }
}

}  // namespace
}  // namespace tessera
