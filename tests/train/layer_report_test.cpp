// --moe-per-layer-logging: the balance of each layer with experts, in any layout.
#include "tessera/train/layer_report.h"

#include <gtest/gtest.h>

#include "tests/train/trainer_run.h"

namespace tessera {
namespace {

constexpr std::int64_t kLogged = 2;

Options layer_run(const fs::path& folder) {
  Options options = test::ranks_options(folder, 3);
  options.train.log_interval = kLogged;
  options.train.log_experts_by_layer = true;
  ModelOptions& model = options.model;
  model.dtype = DType::f64;
  model.num_experts = 4;
  model.moe_ffn_hidden_size = 16;
  model.mlp_bias = false;
  model.moe_layer_freq = {1, 0, 1, 1};
  model.moe_aux_loss_coeff = {0.1};
  model.moe_z_loss = 0.01;
  model.moe_capacity_factor = 1.0;
  return options;
}

// The layers of the logged step.
Json logged_layers(const fs::path& folder) {
  for (const Json& entry : test::metrics_of(folder))
    if (entry.value("iteration", 0) == kLogged && entry.contains("lm_loss")) return entry["layers"];
  return {};
}

TEST(LayerReport, HasTheLayersWithExpertsOfLoggedSteps) {
  const test::TempFolder temp;
  test::run(layer_run(temp / "one"));
  for (const Json& entry : test::metrics_of(temp / "one")) {
    if (!entry.contains("lm_loss")) continue;
    const std::int64_t iteration = entry["iteration"];
    EXPECT_EQ(entry.contains("layers"), iteration == kLogged || iteration == 3) << iteration;
    if (!entry.contains("layers")) continue;
    const Json& layers = entry["layers"];
    ASSERT_EQ(layers.size(), 3u);
    // The mean of the layers is the run's value.
    for (const char* name : {"seq_load_balancing_loss", "z_loss", "expert_imbalance",
                             "expert_entropy", "expert_dropped"}) {
      double mean = 0;
      for (const Json& layer : layers) mean += layer.at(name).get<double>() / 3;
      EXPECT_NEAR(mean, entry.at(name).get<double>(), 1e-12) << name;
    }
    EXPECT_EQ(layers[0]["layer"], 0);
    EXPECT_EQ(layers[1]["layer"], 2);
    EXPECT_NE(layers[0]["z_loss"], layers[1]["z_loss"]);
  }
}

TEST(LayerReport, IsTheSameInEveryLayout) {
  const test::TempFolder temp;
  test::run(layer_run(temp / "one"));
  const Json want = logged_layers(temp / "one");
  struct Case {
    int expert, tensor, pipeline, data;
  };
  int number = 0;
  for (const Case& c : {Case{2, 1, 1, 2}, Case{2, 2, 1, 1}, Case{1, 1, 2, 1}, Case{2, 1, 4, 2}}) {
    const fs::path folder = temp / fmt::format("layout{}", number++);
    Options options = layer_run(folder);
    options.parallel.expert = c.expert;
    options.parallel.expert_tensor = 1;
    options.parallel.tensor = c.tensor;
    options.parallel.sequence_parallel = c.tensor > 1;
    options.parallel.pipeline = c.pipeline;
    options.parallel.data = c.data;
    test::run(options);
    const Json got = logged_layers(folder);
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < want.size(); ++i)
      for (const auto& [name, value] : want[i].items())
        EXPECT_NEAR(got[i].at(name).get<double>(), value.get<double>(), 1e-9) << i << " " << name;
  }
}

// Keeping losses apart does not change what is trained.
TEST(LayerReport, ChangesNoNumber) {
  const test::TempFolder temp;
  test::run(layer_run(temp / "with"));
  Options without = layer_run(temp / "without");
  without.train.log_experts_by_layer = false;
  test::run(without);
  EXPECT_EQ(test::losses_of(temp / "with"), test::losses_of(temp / "without"));
}

}  // namespace
}  // namespace tessera
