// A run that stops after any step and resumes from its checkpoint ends with the same bits: weights,
// optimizer, losses, and of f16 the loss scale.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <tuple>

#include "tests/support/saved_tensors.h"
#include "tests/train/trainer_run.h"

namespace tessera {
namespace {

// Stops lie in a window of 20 steps. A hundred steps after each are compared, or as many as a short
// test has time for.
constexpr std::int64_t kWindow = 20;
std::int64_t steps() { return kWindow + (test::runs_all_cases() ? 100 : 4); }

// A folder that holds the checkpoint of one iteration, as if the run had stopped there.
void copy_checkpoint(const fs::path& from, const fs::path& to, std::int64_t iteration) {
  const std::string name = fmt::format("iter_{:07}", iteration);
  fs::create_directories(to);
  fs::copy(from / name, to / name, fs::copy_options::recursive);
}

// Weights, optimizer, and the counters beside them.
void expect_equal_ends(const fs::path& got, const fs::path& want, std::int64_t stop) {
  Checkpoint a(iteration_folder(got, steps()));
  Checkpoint b(iteration_folder(want, steps()));
  EXPECT_EQ(a.manifest().state, b.manifest().state) << "after a stop at " << stop;
  const std::map<std::string, std::string> tensors = test::saved_tensors(a);
  for (const auto& [name, bytes] : test::saved_tensors(b))
    EXPECT_TRUE(tensors.at(name) == bytes) << name << " differs after a stop at " << stop;
}

// Iteration -> loss and gradient norm, and evaluation losses.
std::map<std::string, double> losses_by_step(const fs::path& folder) {
  std::map<std::string, double> losses;
  for (const Json& entry : test::metrics_of(folder))
    for (const char* key : {"lm_loss", "mtp_1 loss", "grad_norm", "valid_loss", "test_loss"})
      if (entry.contains(key) && !entry[key].is_null())  // a norm that is not finite
        losses[fmt::format("{}@{}", key, entry["iteration"].dump())] = entry[key];
  return losses;
}

// What a run continues with: weights kept in another type than they are trained in, either
// optimizer. Dropout decides which attention a GPU takes.
struct ResumedKind {
  const char* name;
  DType dtype;
  OptimizerKind optimizer = OptimizerKind::adam;
  double dropout = 0.1;
  GradientType gradients = GradientType::accumulator;
  std::int64_t experts = 0;     ///< with a bias per expert
  std::int64_t mtp_depths = 0;  ///< of multi-token prediction
};

class ResumeAnywhere : public testing::TestWithParam<std::tuple<ResumedKind, Device>> {
 protected:
  Options options_for(const fs::path& folder) const {
    const auto& [kind, device] = GetParam();
    Options options = test::run_options(folder, device);
    options.train.train_iters = steps();
    options.model.dtype = kind.dtype;
    options.model.attention_dropout = options.model.hidden_dropout = kind.dropout;
    options.optimizer.kind = kind.optimizer;
    options.optimizer.gradients = kind.gradients;
    if (kind.experts > 0) {
      options.model.num_experts = kind.experts;
      options.model.moe_ffn_hidden_size = 24;
      options.model.mlp_bias = false;
      options.model.moe_router_score = RouterScore::sigmoid;
      options.model.moe_expert_bias = true;
    }
    options.model.mtp_num_layers = kind.mtp_depths;
    if (kind.mtp_depths > 0) options.model.position_embedding = PositionEmbedding::rope;
    options.optimizer.sgd_momentum = 0.9;
    options.optimizer.initial_loss_scale = 0x1p30;  // f16 skips its first steps
    options.optimizer.loss_scale_window = 4;
    return options;
  }
};

TEST_P(ResumeAnywhere, AnyStepGivesEqualBits) {
  const test::TempFolder temp;
  test::run(options_for(temp / "whole"));
  const std::map<std::string, double> whole = losses_by_step(temp / "whole");
  ASSERT_GE(whole.size(), static_cast<std::size_t>(steps()));
  for (std::int64_t stop = 1; stop <= kWindow; stop += test::runs_all_cases() ? 1 : 9) {
    const fs::path folder = temp / fmt::format("resumed{}", stop);
    copy_checkpoint(temp / "whole", folder, stop);
    Options options = options_for(folder);
    options.train.load = folder.string();
    options.train.save_interval = steps();
    test::run(options);
    expect_equal_ends(folder, temp / "whole", stop);
    const std::map<std::string, double> resumed = losses_by_step(folder);
    for (std::int64_t step = stop + 1; step <= steps(); ++step)
      EXPECT_TRUE(resumed.contains(fmt::format("lm_loss@{}", step))) << stop;
    for (const auto& [key, loss] : resumed) {
      ASSERT_TRUE(whole.contains(key)) << key;
      EXPECT_EQ(loss, whole.at(key)) << key << " after " << stop;
    }
  }
}

std::string name_of_resumed(const testing::TestParamInfo<ResumeAnywhere::ParamType>& each) {
  const auto& [kind, device] = each.param;
  return std::string(kind.name) + "_" + test::device_name(device);
}

INSTANTIATE_TEST_SUITE_P(
    Runs, ResumeAnywhere,
    testing::Combine(
        testing::Values(ResumedKind{"f32_adam", DType::f32}, ResumedKind{"bf16_adam", DType::bf16},
                        ResumedKind{"f16_adam", DType::f16},
                        ResumedKind{"f32_sgd", DType::f32, OptimizerKind::sgd},
                        ResumedKind{"bf16_sgd", DType::bf16, OptimizerKind::sgd},
                        ResumedKind{"bf16_no_dropout", DType::bf16, OptimizerKind::adam, 0},
                        ResumedKind{"bf16_gradients", DType::bf16, OptimizerKind::adam, 0.1,
                                    GradientType::parameters},
                        ResumedKind{.name = "bf16_experts", .dtype = DType::bf16, .experts = 4},
                        ResumedKind{.name = "bf16_mtp", .dtype = DType::bf16, .mtp_depths = 1},
                        ResumedKind{.name = "f16_mtp", .dtype = DType::f16, .mtp_depths = 2}),
        testing::ValuesIn(test::devices())),
    name_of_resumed);

}  // namespace
}  // namespace tessera
