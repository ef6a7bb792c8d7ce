// Expert parallelism computes what one rank does: alone and with every other axis, whatever is
// computed again in backward, in f64 where rounding cannot hide a fault.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tessera/base/enumerators.h"
#include "tests/support/layout_cases.h"
#include "tests/support/tiny_models.h"

namespace tessera {
namespace {

struct ExpertCase {
  std::int64_t experts = 2;
  int expert = 2;
  int expert_tensor = 0;
  int tensor = 1;
  int context = 1;
  int pipeline = 1;
  int data = 1;
  Sharding sharding = Sharding::none;
  RecomputeGranularity recompute = RecomputeGranularity::none;
  ScheduleKind schedule = ScheduleKind::automatic;
  int microbatches = 2;
  bool gated = true;
  std::string family = "moe";
  TokenDispatcher dispatcher = TokenDispatcher::alltoall;

  std::string text() const {
    return fmt::format(
        "{} {}{} experts, expert {} x {} tensor {} context {} pipeline {} data {} sharding {} "
        "recompute {} schedule {} microbatches {} by {}",
        family, experts, gated ? " gated" : "", expert, expert_tensor, tensor, context, pipeline,
        data, static_cast<int>(sharding), static_cast<int>(recompute), static_cast<int>(schedule),
        microbatches, to_string(dispatcher));
  }
  SessionOptions session(DType dtype) const {
    SessionOptions options = test::tiny_session(family);
    options.shape = {16, 2};
    options.microbatches = microbatches;
    options.recompute.granularity = recompute;
    options.pipeline.schedule = schedule;
    ModelOptions& model = options.model;
    model.dtype = dtype;
    model.num_layers = 2;
    model.num_query_groups = 2;
    model.num_experts = experts;
    model.gated_mlp = gated;
    model.hidden_dropout = 0.1;
    ParallelOptions& parallel = options.parallel;
    parallel.expert = expert;
    parallel.expert_tensor = expert_tensor;
    parallel.token_dispatcher = dispatcher;
    parallel.tensor = tensor;
    parallel.sequence_parallel = tensor > 1;
    parallel.context = context;
    parallel.pipeline = pipeline;
    parallel.data = data;
    parallel.sharding = sharding;
    options.optimizer.adam_eps = 1e-3;
    return options;
  }
  ExpertCase alone() const {
    return {.experts = experts,
            .expert = 1,
            .microbatches = microbatches * data,
            .gated = gated,
            .family = family};
  }
};

void expect_expert_cases(const std::vector<ExpertCase>& cases) {
  test::LayoutResults results;
  constexpr int kSteps = 3;
  for (ExpertCase c : cases)
    for (const TokenDispatcher dispatcher : enumerators<TokenDispatcher>()) {
      c.dispatcher = dispatcher;
      SCOPED_TRACE(c.text());
      test::expect_same_layouts(test::run_layout(c.session(DType::f64), kSteps),
                                test::alone(results, c, DType::f64, kSteps), {1e-11, 1e-11, 1e-11});
      if (testing::Test::HasFailure()) return;
    }
}

// The ranks that share the experts are data-parallel ranks for everything else.
TEST(ExpertParallel, AloneEqualsOneRank) {
  expect_expert_cases({{.data = 2},
                       {.data = 2, .gated = false},
                       {.experts = 6, .data = 2},
                       {.experts = 4, .expert = 4, .data = 4}});
}

TEST(ExpertParallel, CopiesOfExpertsEqualOneRank) {
  for (const Sharding sharding :
       {Sharding::none, Sharding::optimizer, Sharding::gradients, Sharding::parameters})
    expect_expert_cases({{.data = 4, .sharding = sharding},
                         {.experts = 4, .expert = 1, .data = 2, .sharding = sharding}});
}

// Experts whole on each rank of a tensor-parallel group, or split as it splits other layers.
TEST(ExpertParallel, WithTensorParallelismEqualsOneRank) {
  expect_expert_cases(
      {{.tensor = 2, .data = 2},
       {.expert_tensor = 1, .tensor = 2},
       {.expert_tensor = 1, .tensor = 2, .data = 2, .sharding = Sharding::optimizer},
       {.experts = 4, .expert = 1, .tensor = 2},
       {.experts = 4, .expert = 4, .expert_tensor = 1, .tensor = 2, .data = 2},
       {.expert_tensor = 2, .tensor = 4, .sharding = Sharding::optimizer},
       {.expert = 1, .expert_tensor = 1, .tensor = 2},
       {.expert = 1, .expert_tensor = 2, .data = 2},
       {.expert_tensor = 4, .tensor = 2, .data = 4, .sharding = Sharding::optimizer}});
}

TEST(ExpertParallel, WithPipelinesEqualsOneRank) {
  expect_expert_cases(
      {{.pipeline = 2, .data = 2},
       {.pipeline = 2, .data = 2, .sharding = Sharding::optimizer, .schedule = ScheduleKind::zb_h1},
       {.expert_tensor = 1, .tensor = 2, .pipeline = 2, .schedule = ScheduleKind::zb_h1},
       {.pipeline = 2, .data = 2, .schedule = ScheduleKind::zb_h1, .gated = false}});
  for (const Sharding sharding : {Sharding::gradients, Sharding::parameters})
    expect_expert_cases(
        {{.pipeline = 2, .data = 2, .sharding = sharding, .schedule = ScheduleKind::zb_h1}});
}

TEST(ExpertParallel, WithContextParallelismEqualsOneRank) {
  expect_expert_cases(
      {{.context = 2}, {.experts = 4, .expert = 4, .expert_tensor = 1, .tensor = 2, .context = 2}});
}

TEST(ExpertParallel, WithAllAxesEqualsOneRank) {
  expect_expert_cases({{.tensor = 2, .pipeline = 2, .data = 2, .sharding = Sharding::optimizer},
                       {.expert_tensor = 1,
                        .tensor = 2,
                        .context = 2,
                        .pipeline = 2,
                        .data = 2,
                        .sharding = Sharding::optimizer}});
}

TEST(ExpertParallel, RecomputeEqualsOneRank) {
  for (const auto recompute : {RecomputeGranularity::selective, RecomputeGranularity::full})
    expect_expert_cases(
        {{.data = 2, .recompute = recompute}, {.tensor = 2, .data = 2, .recompute = recompute}});
}

// Several experts per token, shared experts, groups, losses that balance: with every other axis.
TEST(ExpertParallel, RoutersOfAllKindsEqualOneRank) {
  for (const char* family : {"qwen_moe", "deepseek", "capacity", "gpt_oss", "llama4"})
    expect_expert_cases(
        {{.experts = 8, .data = 2, .family = family},
         {.experts = 8, .expert = 4, .data = 4, .family = family},
         {.experts = 8, .expert = 8, .data = 8, .sharding = Sharding::parameters, .family = family},
         {.experts = 8, .tensor = 2, .data = 2, .family = family},
         {.experts = 8,
          .expert = 4,
          .expert_tensor = 1,
          .tensor = 2,
          .context = 2,
          .sharding = Sharding::optimizer,
          .family = family},
         {.experts = 8,
          .expert_tensor = 2,
          .tensor = 2,
          .context = 2,
          .pipeline = 2,
          .schedule = ScheduleKind::zb_h1,
          .family = family},
         {.experts = 8, .data = 2, .recompute = RecomputeGranularity::full, .family = family}});
}

// A bias behind an expert's shards is added once, weighted, and is no matrix to weight decay.
TEST(ExpertParallel, BiasesOfShardedExpertsEqualOneRank) {
  for (const int expert_tensor : {1, 2, 4})
    for (const Sharding sharding : {Sharding::optimizer, Sharding::parameters})
      expect_expert_cases({{.experts = 4,
                            .expert_tensor = expert_tensor,
                            .tensor = 2,
                            .data = 4,
                            .sharding = sharding,
                            .family = "gpt_oss"}});
}

// The bias of an expert moves once per step, by whether the whole batch chose it more or less often
// than the others.
TEST(ExpertParallel, BiasFollowsTheCountsOfTheWholeBatch) {
  for (const ExpertCase& c : std::vector<ExpertCase>{
           {.experts = 8, .expert = 1, .family = "deepseek"},
           {.experts = 8, .data = 2, .microbatches = 1, .family = "deepseek"}}) {
    SessionOptions options = c.session(DType::f64);
    options.model.moe_bias_update_rate = 0.25;
    const test::LayoutResult result = test::run_layout(options, 1);
    bool moved = false;
    for (const auto& [name, tensor] : result.weights) {
      if (!name.ends_with("expert_bias")) continue;
      for (const double each : tensor.values) {
        EXPECT_TRUE(each == 0 || std::abs(each) == 0.25) << name << " " << each;
        moved = moved || each != 0;
      }
    }
    EXPECT_TRUE(moved);
  }
  SessionOptions frozen =
      ExpertCase{.experts = 8, .expert = 1, .family = "deepseek"}.session(DType::f64);
  frozen.optimizer.frozen = {"*.expert_bias"};
  for (const auto& [name, tensor] : test::run_layout(frozen, 2).weights) {
    if (!name.ends_with("expert_bias")) continue;
    for (const double each : tensor.values) EXPECT_EQ(each, 0) << name;
  }
}

// By weight and by position, also where a sequence is divided over ranks.
TEST(ExpertParallel, DroppedTokensAreThoseOfOneRank) {
  for (const DropPolicy policy : {DropPolicy::probs, DropPolicy::position}) {
    const auto run = [&](ExpertCase c) {
      c.experts = 8;
      c.family = "capacity";
      SessionOptions options = c.session(DType::f64);
      options.model.moe_drop_policy = policy;
      options.model.moe_capacity_factor = 0.5;
      return test::run_layout(options, 2);
    };
    const test::LayoutResult want = run({.expert = 1});
    const test::LayoutResult all = test::run_layout(
        ExpertCase{.experts = 8, .expert = 1, .family = "capacity"}.session(DType::f64), 2);
    EXPECT_NE(want.losses, all.losses) << "nothing was dropped";
    for (const ExpertCase& c :
         {ExpertCase{.data = 2, .microbatches = 1}, ExpertCase{.expert = 4, .context = 4},
          ExpertCase{.tensor = 2, .context = 2}}) {
      SCOPED_TRACE(c.text());
      test::expect_same_layouts(run(c), want, {1e-11, 1e-11, 1e-11});
    }
  }
}

// Every token finds all experts equally good, so the first ones get all of them, and the others
// none; and the other extreme, in which every expert gets every token.
TEST(ExpertParallel, ExpertsWithAllTokensOrNone) {
  const auto zero_routers = [](Session& session) {
    for (GptModel& chunk : session.chunks())
      for (Parameter* parameter : chunk.parameters())
        if (parameter->tensors().front().name.ends_with("router.weight"))
          session.context().kernels.fill(session.context().stream, parameter->value(), 0);
  };
  for (const std::int64_t topk : {1, 3, 8}) {
    const auto run = [&](ExpertCase c) {
      c.experts = 8;
      SessionOptions options = c.session(DType::f64);
      options.model.moe_router_topk = topk;
      options.model.moe_aux_loss_coeff = {0.1};
      return test::run_layout(options, 2, {.change_weights = zero_routers});
    };
    const test::LayoutResult want = run({.expert = 1});
    for (const TokenDispatcher dispatcher : enumerators<TokenDispatcher>())
      for (ExpertCase c :
           {ExpertCase{.expert = 8, .data = 8, .microbatches = 1},
            ExpertCase{.expert = 4, .expert_tensor = 1, .tensor = 2, .data = 2, .microbatches = 1},
            ExpertCase{.expert = 2, .expert_tensor = 2, .tensor = 2, .context = 2}}) {
        c.dispatcher = dispatcher;
        SCOPED_TRACE(fmt::format("{} top {}", c.text(), topk));
        const test::LayoutResult alone = c.data == 8 ? run({.expert = 1, .microbatches = 8}) : want;
        test::expect_same_layouts(run(c), alone, {1e-11, 1e-11, 1e-11});
      }
    if (topk == 8) continue;
    const std::vector<double>& unused =
        want.first_gradients.at("layers.0.mlp.experts.down.weight").values;
    const auto begin = unused.begin() + static_cast<std::ptrdiff_t>(unused.size() / 8) * topk;
    EXPECT_TRUE(std::all_of(begin, unused.end(), [](double g) { return g == 0; }))
        << "experts without tokens have a gradient of 0";
    EXPECT_NE(test::norm_of(unused), 0);
  }
}

// Losses over sequences and over the global batch, and the bias, do not depend on how a batch is
// divided into microbatches.
TEST(ExpertParallel, RouterLossesDoNotDependOnTheMicrobatch) {
  const auto run = [](std::int64_t batch, int microbatches, int data) {
    ExpertCase c{.experts = 8, .data = data, .microbatches = microbatches, .family = "deepseek"};
    c.expert = data;
    SessionOptions options = c.session(DType::f64);
    options.shape.batch = batch;
    options.model.moe_balance = {MoeBalance::sequence, MoeBalance::global};
    options.model.moe_aux_loss_coeff = {0.1, 0.2};
    options.model.moe_z_loss = 0.01;
    return test::run_layout(options, 3, {.average = LossAverage::per_token});
  };
  const test::LayoutResult want = run(8, 1, 1);
  EXPECT_EQ(want.extra_losses.size(), 3u * (3 + 3));
  test::expect_same_layouts(run(2, 4, 1), want, {1e-11, 1e-11, 1e-11});
  test::expect_same_layouts(run(1, 8, 1), want, {1e-11, 1e-11, 1e-11});
  test::expect_same_layouts(run(4, 1, 2), want, {1e-11, 1e-11, 1e-11});
  test::expect_same_layouts(run(1, 2, 4), want, {1e-11, 1e-11, 1e-11});
}

// Rows of zeros change nothing, however tokens travel, also where a factor above 1 makes more of
// them than any choice could.
TEST(ExpertParallel, PaddingToCapacityChangesNothing) {
  for (const double factor : {0.5, 3.0}) {
    const auto run = [&](ExpertCase c, bool pads) {
      c.experts = 8;
      c.family = "capacity";
      SessionOptions options = c.session(DType::f64);
      options.model.moe_capacity_factor = factor;
      options.model.moe_pad_to_capacity = pads;
      return test::run_layout(options, 2);
    };
    const test::LayoutResult want = run({.expert = 1}, false);
    for (const TokenDispatcher dispatcher : enumerators<TokenDispatcher>())
      for (ExpertCase c :
           {ExpertCase{.expert = 1}, ExpertCase{.data = 2, .microbatches = 1},
            ExpertCase{.expert = 4, .context = 4}, ExpertCase{.tensor = 2, .context = 2},
            ExpertCase{.expert = 4, .expert_tensor = 1, .tensor = 2, .context = 2}}) {
        c.dispatcher = dispatcher;
        SCOPED_TRACE(fmt::format("{} factor {}", c.text(), factor));
        test::expect_same_layouts(run(c, true), want, {1e-11, 1e-11, 1e-11});
      }
  }
}

// The shares of the last step are a tensor of the model, which a checkpoint has, too.
TEST(ExpertParallel, GlobalBalanceKnowsTheCountsOfTheWholeBatch) {
  for (const ExpertCase& c :
       {ExpertCase{.experts = 8, .expert = 1, .family = "capacity"},
        ExpertCase{.experts = 8, .data = 2, .microbatches = 1, .family = "capacity"}}) {
    const test::LayoutResult result = test::run_layout(c.session(DType::f64), 1);
    int found = 0;
    for (const auto& [name, tensor] : result.weights) {
      if (!name.ends_with("expert_shares")) continue;
      double sum = 0;
      for (const double each : tensor.values) sum += each;
      EXPECT_NEAR(sum, 8, 1e-12) << name;
      EXPECT_NE(tensor.values, std::vector<double>(8, 1.0)) << name;
      ++found;
    }
    EXPECT_EQ(found, 2);
  }
}

// On CPUs a grouped product is one product per expert, so the bits are equal, too.
TEST(ExpertParallel, OneProductPerExpertIsTheSame) {
  for (const ExpertCase& c : {ExpertCase{.experts = 8, .expert = 1, .family = "deepseek"},
                              ExpertCase{.experts = 8, .data = 2, .family = "qwen_moe"},
                              ExpertCase{.experts = 8, .data = 2, .family = "gpt_oss"},
                              ExpertCase{.experts = 8, .data = 2, .family = "llama4"},
                              ExpertCase{.expert_tensor = 1, .tensor = 2}}) {
    SCOPED_TRACE(c.text());
    SessionOptions options = c.session(DType::bf16);
    const test::LayoutResult want = test::run_layout(options, 3);
    options.parallel.grouped_gemm = false;
    test::expect_same_layouts(test::run_layout(options, 3), want, {0, 0, 0});
  }
}

// With the all-to-all, what a token gets from its experts is one sum in one order, whoever has
// them.
TEST(ExpertParallel, LossesDoNotDependOnWhereExpertsAre) {
  for (const DType dtype : {DType::bf16, DType::f32})
    for (const char* family : {"qwen_moe", "deepseek", "gpt_oss", "llama4"}) {
      const auto losses = [&](int expert) {
        const ExpertCase c{.experts = 8, .expert = expert, .data = 4, .family = family};
        return test::run_layout(c.session(dtype), 1).losses;
      };
      const std::vector<double> want = losses(1);
      for (const int expert : {2, 4}) EXPECT_EQ(losses(expert), want) << family << " " << expert;
    }
}

// Shorter types differ from layout to layout by rounding alone, but a token near the border of two
// experts may then go to another one, so only the losses are compared.
TEST(ExpertParallel, ShorterTypesFollowOneRank) {
  const std::vector<ExpertCase> cases{{.data = 2}, {.expert_tensor = 1, .tensor = 2}};
  test::expect_cases_near_one_rank(cases, 1, DType::f32, 1e-4);
  test::expect_cases_near_one_rank(cases, 1, DType::bf16, 5e-2);
}

}  // namespace
}  // namespace tessera
