// Latent attention computes what one rank does in every layout: with tensor, sequence, context,
// pipeline and data parallelism and whatever is computed again in backward, in f64.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include "tests/support/layout_cases.h"
#include "tests/support/tiny_models.h"

namespace tessera {
namespace {

struct LatentCase {
  std::string family = "latent";
  int tensor = 1;
  bool sequence_parallel = false;
  int context = 1;
  CpCommType kind = CpCommType::p2p;
  int pipeline = 1;
  ScheduleKind schedule = ScheduleKind::automatic;
  int data = 1;
  Sharding sharding = Sharding::none;
  RecomputeGranularity recompute = RecomputeGranularity::none;
  bool documents = false;
  int microbatches = 2;

  std::string text() const {
    return fmt::format(
        "{} tensor {}{} context {} {} pipeline {} schedule {} data {} sharding {} "
        "recompute {}{} microbatches {}",
        family, tensor, sequence_parallel ? " sp" : "", context, to_string(kind), pipeline,
        static_cast<int>(schedule), data, static_cast<int>(sharding), static_cast<int>(recompute),
        documents ? " documents" : "", microbatches);
  }
  SessionOptions session(DType dtype) const {
    SessionOptions options = test::tiny_session(family);
    options.shape = {24, 2};
    options.microbatches = microbatches;
    options.documents = documents;
    options.recompute.granularity = recompute;
    options.pipeline.schedule = schedule;
    options.model.dtype = dtype;
    options.model.num_layers = 2;
    options.model.attention_dropout = options.model.hidden_dropout = 0.1;
    ParallelOptions& p = options.parallel;
    p.tensor = tensor;
    p.sequence_parallel = sequence_parallel;
    p.context = context;
    p.cp_comm_types = {kind};
    if (kind == CpCommType::a2a_p2p) p.hierarchical_context = {2, context / 2};
    p.pipeline = pipeline;
    p.data = data;
    p.sharding = sharding;
    options.optimizer.adam_eps = 1e-3;
    return options;
  }
  LatentCase alone() const {
    return {.family = family, .documents = documents, .microbatches = microbatches * data};
  }
};

void expect_latent_cases(std::vector<LatentCase> cases) {
  test::LayoutResults results;
  constexpr int kSteps = 3;
  for (LatentCase& c : cases)
    for (const char* family : {"latent", "latent_lite"}) {
      c.family = family;
      SCOPED_TRACE(c.text());
      test::expect_same_layouts(test::run_layout(c.session(DType::f64), kSteps),
                                test::alone(results, c, DType::f64, kSteps), {1e-11, 1e-11, 1e-11});
      if (testing::Test::HasFailure()) return;
    }
}

constexpr RecomputeGranularity kRecomputes[] = {
    RecomputeGranularity::none, RecomputeGranularity::selective, RecomputeGranularity::full};

TEST(LatentAttention, TensorParallelEqualsOneRank) {
  for (const int tensor : {2, 4})
    for (const bool sequence_parallel : {false, true})
      for (const RecomputeGranularity recompute : kRecomputes)
        expect_latent_cases({{.tensor = tensor,
                              .sequence_parallel = sequence_parallel,
                              .recompute = recompute,
                              .documents = tensor == 4}});
}

TEST(LatentAttention, ContextParallelEqualsOneRank) {
  for (const CpCommType kind : {CpCommType::p2p, CpCommType::all_gather, CpCommType::a2a})
    for (const RecomputeGranularity recompute : kRecomputes)
      expect_latent_cases({{.context = 2, .kind = kind, .recompute = recompute},
                           {.context = 3, .kind = kind, .recompute = recompute, .documents = true},
                           {.tensor = 2,
                            .sequence_parallel = true,
                            .context = 2,
                            .kind = kind,
                            .recompute = recompute}});
  expect_latent_cases({{.context = 4, .kind = CpCommType::a2a_p2p},
                       {.tensor = 2, .context = 4, .kind = CpCommType::a2a_p2p}});
}

// A split backward computes weight gradients later, when scratch memory has been used by others.
TEST(LatentAttention, PipelinesEqualOneRank) {
  for (const ScheduleKind schedule : {ScheduleKind::one_f_one_b, ScheduleKind::zb_h1})
    for (const RecomputeGranularity recompute :
         {RecomputeGranularity::none, RecomputeGranularity::selective})
      expect_latent_cases({{.pipeline = 2, .schedule = schedule, .recompute = recompute},
                           {.tensor = 2,
                            .sequence_parallel = true,
                            .pipeline = 2,
                            .schedule = schedule,
                            .recompute = recompute}});
}

TEST(LatentAttention, ShardedDataParallelEqualsOneRank) {
  for (const Sharding sharding :
       {Sharding::none, Sharding::optimizer, Sharding::gradients, Sharding::parameters})
    expect_latent_cases({{.data = 2, .sharding = sharding},
                         {.tensor = 2, .sequence_parallel = true, .data = 2, .sharding = sharding},
                         {.tensor = 2, .context = 2, .data = 2, .sharding = sharding}});
}

}  // namespace
}  // namespace tessera
