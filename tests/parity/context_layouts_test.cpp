// Context parallelism times tensor, pipeline and data parallelism: every kind of exchange, every
// schedule and every way of sharding, against one rank. TESSERA_FULL goes through all cases over
// twenty steps, otherwise a sample over fewer.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>

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
  std::int64_t seq = 48;

  std::string text() const {
    return fmt::format(
        "{} {} over {}, tensor {} grid {}{}, pipeline {} schedule {} chunks {}, data {} sharding "
        "{} "
        "instances {}, microbatches {}, sequence {}",
        family, to_string(context.kind), context.ranks, tensor.ranks, tensor.grid,
        tensor.sequence_parallel ? " sp" : "", stages.ranks, static_cast<int>(stages.schedule),
        stages.chunks, data.ranks, static_cast<int>(data.sharding), data.instances, microbatches,
        seq);
  }
  int ranks() const { return context.ranks * tensor.ranks * stages.ranks * data.ranks; }
  SessionOptions session(DType dtype) const {
    SessionOptions options = test::tiny_session(family);
    options.shape = {seq, 2};
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
    one.seq = seq;
    one.microbatches = microbatches * data.ranks;
    return one;
  }
};

// The forms of the four axes.
const std::vector<Exchange> kExchanges{{2, CpCommType::p2p},        {3, CpCommType::p2p},
                                       {4, CpCommType::p2p},        {8, CpCommType::p2p},
                                       {2, CpCommType::all_gather}, {3, CpCommType::all_gather},
                                       {8, CpCommType::all_gather}, {2, CpCommType::a2a},
                                       {4, CpCommType::a2a},        {4, CpCommType::a2a_p2p}};
const std::vector<Tensors> kTensors{
    {}, {.ranks = 2}, {.ranks = 2, .sequence_parallel = true}, {.ranks = 4, .grid = 2}};
const std::vector<Stages> kStages{{},
                                  {2, ScheduleKind::gpipe},
                                  {2, ScheduleKind::one_f_one_b},
                                  {2, ScheduleKind::interleaved, 2},
                                  {2, ScheduleKind::zb_h1},
                                  {2, ScheduleKind::zb_v, 2},
                                  {2, ScheduleKind::search}};
const std::vector<DataRanks> kDataRanks{{},
                                        {2},
                                        {2, Sharding::optimizer},
                                        {2, Sharding::gradients},
                                        {2, Sharding::parameters},
                                        {4, Sharding::parameters, 2}};

// One form of each axis, by number, and its pairs: axis, form, another axis, form.
using Forms = std::array<std::size_t, 4>;
using FormPair = std::array<std::size_t, 4>;

std::vector<FormPair> pairs_of(const Forms& forms) {
  std::vector<FormPair> pairs;
  for (std::size_t a = 0; a < forms.size(); ++a)
    for (std::size_t b = a + 1; b < forms.size(); ++b) pairs.push_back({a, forms[a], b, forms[b]});
  return pairs;
}

ContextLayout layout_of(const Forms& forms) {
  ContextLayout layout{kExchanges[forms[0]], kTensors[forms[1]], kStages[forms[2]],
                       kDataRanks[forms[3]]};
  if (layout.context.ranks == 8) layout.seq = 64;  // a multiple of the chunks and tensor ranks
  return layout;
}

// Every combination whose ranks, which are threads here, do not take long.
std::vector<Forms> feasible_forms() {
  constexpr int kMostRanks = 24;
  std::vector<Forms> all;
  for (std::size_t context = 0; context < kExchanges.size(); ++context)
    for (std::size_t tensor = 0; tensor < kTensors.size(); ++tensor)
      for (std::size_t stage = 0; stage < kStages.size(); ++stage)
        for (std::size_t data = 0; data < kDataRanks.size(); ++data) {
          const Forms forms{context, tensor, stage, data};
          if (layout_of(forms).ranks() <= kMostRanks) all.push_back(forms);
        }
  return all;
}

std::set<FormPair> pairs_of(const std::vector<Forms>& all) {
  std::set<FormPair> pairs;
  for (const Forms& forms : all)
    for (const FormPair& pair : pairs_of(forms)) pairs.insert(pair);
  return pairs;
}

// Every combination that brings a pair of forms that none before it has, and a fifth of the others.
std::vector<Forms> chosen_forms() {
  std::vector<Forms> chosen;
  std::set<FormPair> seen;
  int others = 0;
  for (const Forms& forms : feasible_forms()) {
    bool brings = false;
    for (const FormPair& pair : pairs_of(forms)) brings |= seen.insert(pair).second;
    if (brings || others++ % 5 == 0) chosen.push_back(forms);
  }
  return chosen;
}

// The families take turns.
std::vector<ContextLayout> layouts() {
  std::vector<ContextLayout> all;
  for (const Forms& forms : chosen_forms()) {
    all.push_back(layout_of(forms));
    all.back().family = std::vector{"llama", "gpt", "qwen3"}[all.size() / 2 % 3];
  }
  return all;
}

TEST(ContextLayouts, ThereAreThreeHundred) { EXPECT_GE(layouts().size(), 300u); }

TEST(ContextLayouts, EveryPairOfFormsOccurs) {
  const std::set<FormPair> possible = pairs_of(feasible_forms());
  EXPECT_GT(possible.size(), 200u);
  EXPECT_EQ(pairs_of(chosen_forms()), possible);
}

// Each kind is a test of its own, so that shards run beside each other.
class ContextLayoutsOf : public testing::TestWithParam<CpCommType> {};

TEST_P(ContextLayoutsOf, EqualOneRank) {
  std::vector<ContextLayout> all = layouts();
  std::erase_if(all, [](const ContextLayout& each) { return each.context.kind != GetParam(); });
  test::expect_cases_equal_one_rank(all, test::all_cases() ? 1 : 47);
}

TEST(ContextLayouts, NearOneRankInShorterTypes) {
  const std::size_t stride = test::all_cases() ? 61 : 187;
  test::expect_cases_near_one_rank(layouts(), stride, DType::f32, 1e-5);
  test::expect_cases_near_one_rank(layouts(), stride, DType::bf16, 3e-3);
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
