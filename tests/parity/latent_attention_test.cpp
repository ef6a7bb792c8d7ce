// Latent attention computes what one rank does in every layout.
#include "tests/support/attention_layouts.h"

namespace tessera {
namespace {

using test::kRecomputes;

void expect_latent_cases(const std::vector<test::AttentionLayout>& cases) {
  test::expect_attention_layouts(cases, {"latent", "latent_lite"});
}

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
