// A run that stops after any step and resumes from its checkpoint ends with the same bits.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <regex>

#include "tessera/base/json.h"
#include "tessera/config/print.h"
#include "tessera/config/resolve.h"
#include "tessera/optim/schedule.h"
#include "tessera/train/trainer.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_models.h"

namespace tessera {
namespace {

constexpr std::int64_t kSteps = 20;

Options run_options(const fs::path& folder) {
  Options options;
  options.model = test::tiny_gpt();
  options.model.vocab_size = 0;
  options.data.mock_data = true;
  options.data.tokenizer = TokenizerKind::null;
  options.data.vocab_size = 60;
  options.data.seq_length = 16;
  options.train.micro_batch_size = 2;
  options.train.global_batch_size = 4;
  options.train.train_iters = kSteps;
  options.train.eval_interval = 7;
  options.train.eval_iters = 1;
  options.train.save = folder.string();
  options.train.save_interval = 1;
  options.schedule.lr = 1e-2;
  options.schedule.min_lr = 1e-3;
  options.schedule.warmup_iters = 3;
  options.schedule.decay_style = DecayStyle::cosine;
  resolve(options);
  return options;
}

void run(const Options& options) {
  Trainer(options, print_config(options), {0, 1, 2, make_self_communicator()}).run();
}

// A folder that holds the checkpoint of one iteration, as if the run had stopped there.
void copy_checkpoint(const fs::path& from, const fs::path& to, std::int64_t iteration) {
  const std::string name = fmt::format("iter_{:07}", iteration);
  fs::create_directories(to);
  fs::copy(from / name, to / name, fs::copy_options::recursive);
  write_file_atomically(to / "latest_checkpointed_iteration.txt", std::to_string(iteration));
}

std::string final_file(const fs::path& folder, const std::string& file) {
  return read_text_file(folder / fmt::format("iter_{:07}", kSteps) / file);
}

// Iteration -> loss, and evaluation losses, as metrics.jsonl has them.
std::map<std::string, double> losses_of(const fs::path& folder) {
  std::map<std::string, double> losses;
  std::ifstream file(folder / "metrics.jsonl");
  for (std::string line; std::getline(file, line);) {
    const Json entry = Json::parse(line);
    for (const char* key : {"lm_loss", "valid_loss", "test_loss"})
      if (entry.contains(key))
        losses[fmt::format("{}@{}", key, entry["iteration"].dump())] = entry[key];
  }
  return losses;
}

// What a run continues with: weights kept in another type than they are trained in, either
// optimizer.
struct Kind {
  const char* name;
  DType dtype;
  OptimizerKind optimizer;
};

class ResumeAnywhere : public ::testing::TestWithParam<Kind> {
 protected:
  Options options_for(const fs::path& folder) const {
    Options options = run_options(folder);
    options.model.dtype = GetParam().dtype;
    options.optimizer.kind = GetParam().optimizer;
    options.optimizer.sgd_momentum = 0.9;
    options.optimizer.initial_loss_scale = 0x1p30;  // f16 skips its first steps
    options.optimizer.loss_scale_window = 4;
    return options;
  }
};

TEST_P(ResumeAnywhere, AnyStepGivesEqualBits) {
  const test::TempFolder temp;
  run(options_for(temp / "whole"));
  const std::map<std::string, double> whole = losses_of(temp / "whole");
  ASSERT_GE(whole.size(), static_cast<std::size_t>(kSteps));
  const bool all = std::getenv("TESSERA_FULL") != nullptr;
  for (std::int64_t stop = 1; stop < kSteps; stop += all ? 1 : 6) {
    const fs::path folder = temp / fmt::format("resumed{}", stop);
    copy_checkpoint(temp / "whole", folder, stop);
    Options options = options_for(folder);
    options.train.load = folder.string();
    options.train.save_interval = kSteps;
    run(options);
    for (const char* file : {"model.safetensors", "optimizer.safetensors"})
      EXPECT_EQ(final_file(folder, file), final_file(temp / "whole", file)) << stop;
    const std::map<std::string, double> resumed = losses_of(folder);
    for (std::int64_t step = stop + 1; step <= kSteps; ++step)
      EXPECT_TRUE(resumed.contains(fmt::format("lm_loss@{}", step))) << stop;
    for (const auto& [key, loss] : resumed) {
      ASSERT_TRUE(whole.contains(key)) << key;
      EXPECT_EQ(loss, whole.at(key)) << key << " after " << stop;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Runs, ResumeAnywhere,
                         ::testing::Values(Kind{"f32_adam", DType::f32, OptimizerKind::adam},
                                           Kind{"bf16_adam", DType::bf16, OptimizerKind::adam},
                                           Kind{"f16_adam", DType::f16, OptimizerKind::adam},
                                           Kind{"f32_sgd", DType::f32, OptimizerKind::sgd},
                                           Kind{"bf16_sgd", DType::bf16, OptimizerKind::sgd}),
                         [](const auto& test) { return std::string(test.param.name); });

// Of 2^30 f16 gradients overflow: the first steps are skipped, and count nowhere.
TEST(Resume, SkippedStepsMoveNeitherScheduleNorOptimizer) {
  const test::TempFolder temp;
  Options options = run_options(temp / "run");
  options.model.dtype = DType::f16;
  options.optimizer.initial_loss_scale = 0x1p30;
  run(options);
  std::ifstream file(temp / "run/metrics.jsonl");
  std::int64_t skipped = 0;
  double scale = 0x1p30;
  for (std::string line; std::getline(file, line);) {
    const Json entry = Json::parse(line);
    if (!entry.contains("lm_loss")) continue;
    const std::int64_t iteration = entry["iteration"];
    const bool bad = entry["skipped"];
    EXPECT_EQ(entry["loss_scale"], scale) << iteration;
    EXPECT_EQ(entry["grad_norm"].is_null(), bad) << iteration;
    EXPECT_EQ(entry["learning_rate"],
              learning_rate(options.schedule, 4, (iteration - 1 - skipped) * 4));
    skipped += bad ? 1 : 0;
    if (bad && skipped > 1) scale /= 2;
  }
  EXPECT_GT(skipped, 3);
  EXPECT_LT(skipped, kSteps - 3);
  const std::optional<Checkpoint> saved = Checkpoint::latest(temp / "run");
  EXPECT_EQ(saved->counter("optimizer_steps"), kSteps - skipped);
  EXPECT_EQ(saved->counter("schedule_samples"), (kSteps - skipped) * 4);
  EXPECT_EQ(saved->counter("consumed_samples"), kSteps * 4);
  EXPECT_EQ(saved->number("loss_scale"), scale);
}

TEST(Resume, ACutOffSaveLeavesTheOldCheckpoint) {
  const test::TempFolder temp;
  Options options = run_options(temp / "run");
  options.train.train_iters = 2;
  run(options);
  // What a crash in the middle of a save leaves behind: a temporary folder with half a file.
  fs::create_directories(temp / "run" / "iter_0000003.tmp");
  std::ofstream(temp / "run" / "iter_0000003.tmp" / "model.safetensors") << "half";
  options.train.load = options.train.save;
  options.train.train_iters = 4;
  run(options);
  EXPECT_EQ(Checkpoint::latest(temp / "run")->iteration(), 4);
  EXPECT_FALSE(fs::exists(temp / "run" / "iter_0000003.tmp"));
}

TEST(Resume, ANewRunDoesNotGrowIntoAnOldOne) {
  const test::TempFolder temp;
  Options options = run_options(temp / "run");
  options.train.train_iters = 2;
  run(options);
  test::expect_input_error([&] { run(options); }, {"--save", "another run", "--load"});
  EXPECT_EQ(Checkpoint::latest(temp / "run")->iteration(), 2);
}

TEST(Resume, SavingAnIterationAgainReplacesIt) {
  const test::TempFolder temp;
  Options options = run_options(temp / "run");
  options.train.train_iters = 2;
  run(options);
  const fs::path file = temp / "run/iter_0000002/model.safetensors";
  const std::string before = read_text_file(file);
  options.train.load = options.train.save;
  options.train.finetune = true;
  run(options);
  EXPECT_EQ(Checkpoint::latest(temp / "run")->iteration(), 2);
  EXPECT_NE(read_text_file(file), before);
  EXPECT_FALSE(fs::exists(temp / "run" / "iter_0000002.tmp"));
}

TEST(Resume, FinetuneStartsCountersAnew) {
  const test::TempFolder temp;
  Options options = run_options(temp / "run");
  options.train.train_iters = 3;
  run(options);
  options.train.load = options.train.save;
  options.train.save = (temp / "tuned").string();
  options.train.finetune = true;
  Trainer trainer(options, print_config(options), {0, 1, 1, make_self_communicator()});
  EXPECT_EQ(trainer.progress().iteration, 0);
  Session& session = trainer.session();
  EXPECT_EQ(session.optimizer().step_state(session.context()).step, 0);
  // The weights are the checkpoint's, not the seed's.
  const SafetensorsFile saved(temp / "run/iter_0000003/model.safetensors");
  const ConstView norm = saved.view("final_norm.weight");
  int found = 0;
  for (const Parameter* parameter : session.parameters().parameters())
    if (parameter->name() == "final_norm.weight") {
      ++found;
      EXPECT_EQ(std::memcmp(parameter->value().raw(), norm.raw(), norm.bytes()), 0);
    }
  EXPECT_EQ(found, 1);
}

TEST(Resume, AFinishedRunIsLeftAlone) {
  const test::TempFolder temp;
  Options options = run_options(temp / "run");
  options.train.train_iters = 3;
  run(options);
  const auto written = fs::last_write_time(temp / "run/iter_0000003");
  options.train.load = options.train.save;
  options.train.no_save_optim = true;
  run(options);
  EXPECT_EQ(fs::last_write_time(temp / "run/iter_0000003"), written);
  EXPECT_TRUE(fs::exists(temp / "run/iter_0000003/optimizer.safetensors"));
}

TEST(Resume, AnotherModelOrOtherDataIsRefused) {
  const test::TempFolder temp;
  Options options = run_options(temp / "run");
  options.train.train_iters = 2;
  run(options);
  options.train.load = options.train.save;
  options.train.train_iters = 4;
  const auto refused = [&](auto change, const char* flag) {
    Options other = options;
    change(other);
    test::expect_input_error([&] { run(other); }, {"differs", flag, "--finetune"});
  };
  refused([](Options& o) { o.model.norm_epsilon = 1e-3; }, "norm-epsilon");
  refused([](Options& o) { o.train.seed = o.data.seed = 5; }, "seed");
  refused([](Options& o) { o.data.seq_length = 8; }, "seq-length");
}

// Changes the weights, and expects the first step to stop the run: nothing updated, nothing saved.
void expect_stopped(const std::function<void(const std::string& name, const View& weight)>& change,
                    const char* message) {
  const test::TempFolder temp;
  Options options = run_options(temp / "run");
  options.train.train_iters = 2;
  options.optimizer.clip_grad = 1.0;
  Trainer trainer(options, print_config(options), {0, 1, 1, make_self_communicator()});
  const ParameterBuffers& buffers = trainer.session().parameters();
  for (const Parameter* parameter : buffers.parameters())
    change(parameter->name(), parameter->value());
  const View values = buffers.values();
  const std::vector<std::byte> before(static_cast<const std::byte*>(values.raw()),
                                      static_cast<const std::byte*>(values.raw()) + values.bytes());
  try {
    trainer.run();
    ADD_FAILURE() << "the run went on";
  } catch (const Error& error) {
    EXPECT_TRUE(std::regex_search(error.what(), std::regex(message))) << error.what();
  }
  EXPECT_EQ(std::memcmp(before.data(), values.raw(), before.size()), 0) << "weights were touched";
  EXPECT_FALSE(fs::exists(temp / "run/iter_0000001"));
}

TEST(Resume, AStepThatIsNotFiniteStopsBeforeAnythingIsSaved) {
  expect_stopped(
      [](const std::string& name, const View& weight) {
        if (name == "final_norm.weight") weight.data<float>()[0] = std::nanf("");
      },
      "loss nan");
}

// The loss alone would not show it: huge values of attention meet an output projection of zero, so
// forward never sees them, and its gradient is their product with what comes from above.
TEST(Resume, AFiniteLossWithInfiniteGradientsStopsTheRunToo) {
  expect_stopped(
      [](const std::string& name, const View& weight) {
        float* data = weight.data<float>();
        if (name == "final_norm.weight") std::fill_n(data, weight.numel(), 1e4f);
        if (name == "layers.0.attention.q.weight") data[weight.numel() - 1] = 2e37f;
        if (name == "layers.0.attention.out.weight") std::fill_n(data, weight.numel(), 0.0f);
      },
      "loss [0-9.]+ and gradient norm -?(inf|nan)");
}

}  // namespace
}  // namespace tessera
