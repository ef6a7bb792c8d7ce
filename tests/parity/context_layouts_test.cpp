// Context parallelism times tensor, pipeline and data parallelism: every kind of exchange, every
// schedule and every way of sharding, against one rank. TESSERA_FULL goes through all cases over
// twenty steps, otherwise a sample over fewer.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/layout_cases.h"
#include "tests/support/tiny_models.h"

namespace tessera {
namespace {

struct Tensors {
  int ranks = 1;
  int grid = 0;  ///< 2-D: its side
  bool sequence_parallel = false;
};
struct Stages {
  int ranks = 1;
  ScheduleKind schedule = ScheduleKind::automatic;
  int chunks = 1;
};
struct DataRanks {
  int ranks = 1;
  Sharding sharding = Sharding::none;
  int instances = 1;
};
struct Exchange {
  int ranks = 2;
  CpCommType kind = CpCommType::p2p;
};

struct ContextLayout {
  Exchange context;
  Tensors tensor;
  Stages stages;
  DataRanks data;
  std::string family = "llama";
  int microbatches = 2;

  std::string text() const {
    return fmt::format(
        "{} {} over {}, tensor {} grid {}{}, pipeline {} schedule {} chunks {}, data {} sharding "
        "{} "
        "instances {}, microbatches {}",
        family, to_string(context.kind), context.ranks, tensor.ranks, tensor.grid,
        tensor.sequence_parallel ? " sp" : "", stages.ranks, static_cast<int>(stages.schedule),
        stages.chunks, data.ranks, static_cast<int>(data.sharding), data.instances, microbatches);
  }
  int ranks() const { return context.ranks * tensor.ranks * stages.ranks * data.ranks; }
  SessionOptions session(DType dtype) const {
    SessionOptions options = test::tiny_session(family);
    options.shape = {48, 2};
    options.microbatches = microbatches;
    ModelOptions& model = options.model;
    model.dtype = dtype;
    model.num_layers = 4;
    model.num_attention_heads = 8;
    model.num_query_groups = 2;
    model.kv_channels = 4;
    model.max_position_embeddings = options.shape.seq;
    model.attention_dropout = family == "gpt" ? 0.1 : 0.0;
    model.hidden_dropout = 0.1;
    ParallelOptions& parallel = options.parallel;
    parallel.context = context.ranks;
    parallel.cp_comm_types = {context.kind};
    if (context.kind == CpCommType::a2a_p2p) parallel.hierarchical_context = {2, context.ranks / 2};
    parallel.tensor = tensor.ranks;
    parallel.tensor_2d = tensor.grid;
    parallel.sequence_parallel = tensor.sequence_parallel;
    parallel.pipeline = stages.ranks;
    options.pipeline.schedule = stages.schedule;
    options.pipeline.chunks = stages.chunks;
    parallel.data = data.ranks;
    parallel.sharding = data.sharding;
    parallel.sharding_instances = data.instances;
    options.optimizer.adam_eps = 1e-3;
    return options;
  }
  ContextLayout alone() const {
    ContextLayout one;
    one.context.ranks = 1;
    one.family = family;
    one.microbatches = microbatches * data.ranks;
    return one;
  }
};

// Two of five combinations. No axis has a multiple of five forms, so each pair of forms of two axes
// occurs. The families take turns.
// Ranks are threads, so layouts of more than kMostRanks take long.
std::vector<ContextLayout> layouts() {
  constexpr int kMostRanks = 24;
  const std::vector<Exchange> contexts{{2, CpCommType::p2p},        {3, CpCommType::p2p},
                                       {4, CpCommType::p2p},        {2, CpCommType::all_gather},
                                       {3, CpCommType::all_gather}, {2, CpCommType::a2a},
                                       {4, CpCommType::a2a},        {4, CpCommType::a2a_p2p}};
  const std::vector<Tensors> tensors{
      {}, {.ranks = 2}, {.ranks = 2, .sequence_parallel = true}, {.ranks = 4, .grid = 2}};
  const std::vector<Stages> stages{{},
                                   {2, ScheduleKind::gpipe},
                                   {2, ScheduleKind::one_f_one_b},
                                   {2, ScheduleKind::interleaved, 2},
                                   {2, ScheduleKind::zb_h1},
                                   {2, ScheduleKind::zb_v, 2},
                                   {2, ScheduleKind::search}};
  const std::vector<DataRanks> data{{},
                                    {2},
                                    {2, Sharding::optimizer},
                                    {2, Sharding::gradients},
                                    {2, Sharding::parameters},
                                    {4, Sharding::parameters, 2}};
  std::vector<ContextLayout> all;
  int at = 0;
  for (const Exchange& context : contexts)
    for (const Tensors& tensor : tensors)
      for (const Stages& stage : stages)
        for (const DataRanks& each : data) {
          ContextLayout layout{context, tensor, stage, each};
          layout.family =
              std::vector{"llama", "gpt", "qwen3"}[static_cast<std::size_t>(at / 2 % 3)];
          if (layout.ranks() <= kMostRanks && at++ % 5 < 2) all.push_back(layout);
        }
  return all;
}

TEST(ContextLayouts, ThereAreThreeHundred) { EXPECT_GE(layouts().size(), 300u); }

// Each kind is a test of its own, so that shards run beside each other.
class ContextLayoutsOf : public testing::TestWithParam<CpCommType> {};

TEST_P(ContextLayoutsOf, EqualOneRank) {
  std::vector<ContextLayout> all = layouts();
  std::erase_if(all, [](const ContextLayout& each) { return each.context.kind != GetParam(); });
  test::expect_cases_equal_one_rank(all, test::all_cases() ? 1 : 37);
}

INSTANTIATE_TEST_SUITE_P(Kinds, ContextLayoutsOf,
                         testing::Values(CpCommType::p2p, CpCommType::all_gather, CpCommType::a2a,
                                         CpCommType::a2a_p2p),
                         [](const testing::TestParamInfo<CpCommType>& kind) {
                           std::string name(to_string(kind.param));
                           std::ranges::replace(name, '+', '_');
                           return name;
                         });

}  // namespace
}  // namespace tessera
