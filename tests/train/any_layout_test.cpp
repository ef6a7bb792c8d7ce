// A checkpoint of any layout resumes in any other: each of the layouts below saves, and each other
// one loads that. What it then holds is what was saved, bit for bit, and it trains on as one rank
// does.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/support/saved_tensors.h"
#include "tests/train/trainer_run.h"

namespace tessera {
namespace {

constexpr std::int64_t kSaved = 3, kEnd = 13;

struct Layout {
  const char* name;
  int tensor = 1;
  int pipeline = 1;
  Sharding sharding = Sharding::none;
  int virtual_stages = 0;
  int tensor_2d = 0;
  int instances = 1;
  ScheduleKind schedule = ScheduleKind::automatic;
  int context = 1;
  int expert = 1;
  int expert_tensor = 0;
};

const std::vector<Layout> kLayouts{
    {"data"},
    {"zero1", 1, 1, Sharding::optimizer},
    {"zero2", 1, 1, Sharding::gradients},
    {"zero3", 1, 1, Sharding::parameters},
    {"hybrid", 1, 1, Sharding::optimizer, 0, 0, 2},
    {"tensor2_zero1", 2, 1, Sharding::optimizer},
    {"tensor4_pipeline2", 4, 2},
    {"grid2_zero1", 1, 1, Sharding::optimizer, 0, 2},
    {"pipeline8", 1, 8, Sharding::none, 0, 0, 1, ScheduleKind::zb_h1},
    {"pipeline4_zero1", 1, 4, Sharding::optimizer},
    {"tensor2_pipeline2_virtual2_zero1", 2, 2, Sharding::optimizer, 2},
    {"tensor2_pipeline2_zero3", 2, 2, Sharding::parameters, 0, 0, 1, ScheduleKind::zb_v},
    {"context2_tensor2_zero1", 2, 1, Sharding::optimizer, 0, 0, 1, ScheduleKind::automatic, 2},
    {"context4", 1, 1, Sharding::none, 0, 0, 1, ScheduleKind::automatic, 4},
};

// Of a mixture of four experts.
const std::vector<Layout> kExpertLayouts{
    {.name = "data"},
    {.name = "expert2_zero1", .sharding = Sharding::optimizer, .expert = 2},
    {.name = "expert4", .expert = 4},
    {.name = "expert2_tensor2_zero1", .tensor = 2, .sharding = Sharding::optimizer, .expert = 2},
    {.name = "expert4_tensor2_whole_experts", .tensor = 2, .expert = 4, .expert_tensor = 1},
    {.name = "expert2_pipeline2_zero3",
     .pipeline = 2,
     .sharding = Sharding::parameters,
     .expert = 2},
    {.name = "expert4_context2", .context = 2, .expert = 4},
};

// Of two depths of multi-token prediction.
const std::vector<Layout> kMtpLayouts{
    {.name = "data"},
    {.name = "tensor2_context2_zero1", .tensor = 2, .sharding = Sharding::optimizer, .context = 2},
    {.name = "pipeline4", .pipeline = 4, .schedule = ScheduleKind::zb_h1},
    {.name = "pipeline2_zero3_vee",
     .pipeline = 2,
     .sharding = Sharding::parameters,
     .schedule = ScheduleKind::zb_v},
};

struct Model {
  DType dtype = DType::f64;
  std::int64_t experts = 0;
  std::int64_t mtp_depths = 0;
};

// On one rank without a layout.
Options layout_options(const fs::path& folder, const Layout* layout, const Model& model) {
  const std::int64_t experts = model.experts;
  Options options = test::ranks_options(folder, kEnd);
  options.model.dtype = model.dtype;
  options.model.num_layers = 8;
  options.model.mtp_num_layers = model.mtp_depths;
  if (model.mtp_depths > 0) {
    options.model.position_embedding = PositionEmbedding::rope;
    options.model.tie_embeddings = false;
  }
  options.model.num_experts = experts;
  if (experts > 0) {
    options.model.mlp_bias = false;
    options.model.moe_router_score = RouterScore::sigmoid;
    options.model.moe_expert_bias = true;
    options.model.moe_bias_update_rate = 0.01;
  }
  options.train.eval_iters = 0;
  options.train.save_interval = kSaved;
  options.train.exit_interval = kSaved;
  ParallelOptions& p = options.parallel;
  if (layout != nullptr) {
    p.tensor_2d = layout->tensor_2d;
    p.tensor = layout->tensor;
    p.sequence_parallel = layout->tensor > 1;
    p.pipeline = layout->pipeline;
    p.context = layout->context;
    p.expert = layout->expert;
    p.expert_tensor = layout->expert_tensor;
    p.fsdp = true;
    p.fsdp_strategy = layout->sharding;
    p.sharding_instances = layout->instances;
    p.nproc = 8;
    p.bucket_elements = 2'000;
    options.pipeline.virtual_stages = layout->virtual_stages;
    options.pipeline.schedule = layout->schedule;
  }
  resolve(options);
  return options;
}

// Loads what is in the folder, saves it at once elsewhere, and trains to the end.
void go_on(const Options& options, const fs::path& again) {
  run_ranks(8, 1, [&](Rank& rank) {
    Trainer trainer(options, print_config(options), rank);
    Saver saver(trainer.session(), {again}, [](const std::string&) {});
    saver.request({kSaved,
                   state_of(trainer.session(), trainer.progress()),
                   {{kConfigFile, print_config(options)}}});
    trainer.run();
  });
}

void expect_pairs(const std::vector<Layout>& layouts, const Model& model, double tolerance,
                  std::size_t stride) {
  const test::TempFolder temp;
  Options one = layout_options(temp / "one", nullptr, model);
  one.train.exit_interval = 0;
  test::run(one);
  const std::vector<double> want = test::losses_of(temp / "one");
  std::size_t pair = 0;
  for (const Layout& from : layouts) {
    const fs::path saved = temp / from.name;
    bool made = false;
    for (const Layout& to : layouts) {
      if (&from == &to || pair++ % stride != 0) continue;
      SCOPED_TRACE(fmt::format("{} -> {}", from.name, to.name));
      if (!std::exchange(made, true)) test::run(layout_options(saved, &from, model));
      Options options = layout_options(temp / "next", &to, model);
      options.train.load = saved.string();
      options.train.exit_interval = 0;
      options.train.save_interval = kEnd;
      go_on(options, temp / "again");
      EXPECT_TRUE(test::saved_tensors(temp / "again", kSaved) ==
                  test::saved_tensors(saved, kSaved));
      const std::vector<double> got = test::losses_of(temp / "next");
      ASSERT_EQ(got.size(), static_cast<std::size_t>(kEnd - kSaved));
      for (std::size_t i = 0; i < got.size(); ++i)
        EXPECT_NEAR(got[i], want[i + kSaved], tolerance * want[i + kSaved]) << i;
      fs::remove_all(temp / "next");
      fs::remove_all(temp / "again");
      if (testing::Test::HasFailure()) return;
    }
  }
}

TEST(AnyLayout, GoesOnInAnyOtherInF64) {
  expect_pairs(kLayouts, {}, 1e-9, test::runs_all_cases() ? 1 : 29);
}

TEST(AnyLayout, GoesOnInAnyOtherInF32) {
  expect_pairs(kLayouts, {DType::f32}, 1e-5, test::runs_all_cases() ? 5 : 71);
}

// bf16 keeps master weights, whole or as what rounding took away.
TEST(AnyLayout, GoesOnInAnyOtherInBf16) {
  expect_pairs(kLayouts, {DType::bf16}, 3e-2, test::runs_all_cases() ? 11 : 61);
}

TEST(AnyLayout, ExpertsGoOnInAnyOther) {
  expect_pairs(kExpertLayouts, {DType::f64, 4}, 1e-9, test::runs_all_cases() ? 1 : 9);
}

TEST(AnyLayout, MultiTokenPredictionGoesOnInAnyOther) {
  expect_pairs(kMtpLayouts, {DType::f64, 0, 2}, 1e-9, test::runs_all_cases() ? 1 : 4);
}

}  // namespace
}  // namespace tessera
