// Sinks, chunks, norms without weights and temperatures compute what one rank does in every layout.
#include "tests/support/attention_layouts.h"

namespace tessera {
namespace {

using test::kRecomputes;

void expect_cases(const std::vector<test::AttentionLayout>& cases) {
  test::expect_attention_layouts(cases, {"sinks", "chunks"});
}

TEST(AttentionForms, TensorParallelEqualsOneRank) {
  for (const int tensor : {2, 4})
    for (const bool sequence_parallel : {false, true})
      expect_cases({{.tensor = tensor,
                     .sequence_parallel = sequence_parallel,
                     .recompute = kRecomputes[tensor / 2],
                     .documents = tensor == 4}});
}

TEST(AttentionForms, ContextParallelEqualsOneRank) {
  for (const CpCommType kind : {CpCommType::p2p, CpCommType::all_gather, CpCommType::a2a})
    for (const RecomputeGranularity recompute : kRecomputes)
      expect_cases({{.context = 2, .kind = kind, .recompute = recompute},
                    {.context = 3, .kind = kind, .recompute = recompute, .documents = true}});
  for (const CpCommType kind : {CpCommType::p2p, CpCommType::all_gather, CpCommType::a2a})
    expect_cases({{.tensor = 2, .sequence_parallel = true, .context = 2, .kind = kind},
                  {.context = 4, .kind = kind, .documents = true}});
  expect_cases({{.context = 4, .kind = CpCommType::a2a_p2p},
                {.context = 4, .kind = CpCommType::a2a_p2p, .documents = true},
                {.tensor = 2, .context = 4, .kind = CpCommType::a2a_p2p}});
}

// With a split backward the gradients of sinks wait with those of norms.
TEST(AttentionForms, PipelinesEqualOneRank) {
  for (const ScheduleKind schedule : {ScheduleKind::one_f_one_b, ScheduleKind::zb_h1})
    expect_cases(
        {{.pipeline = 2, .schedule = schedule},
         {.pipeline = 2, .schedule = schedule, .recompute = RecomputeGranularity::selective},
         {.tensor = 2, .context = 2, .pipeline = 2, .schedule = schedule}});
  for (const Sharding sharding : {Sharding::gradients, Sharding::parameters})
    expect_cases(
        {{.pipeline = 2, .schedule = ScheduleKind::zb_h1, .data = 2, .sharding = sharding}});
}

TEST(AttentionForms, ShardedDataParallelEqualsOneRank) {
  for (const Sharding sharding : {Sharding::optimizer, Sharding::gradients, Sharding::parameters})
    expect_cases({{.data = 2, .sharding = sharding},
                  {.tensor = 2, .sequence_parallel = true, .data = 2, .sharding = sharding},
                  {.context = 2, .kind = CpCommType::a2a, .data = 2, .sharding = sharding}});
}

}  // namespace
}  // namespace tessera
