// A run that stops after any step and resumes from its checkpoint ends with the same bits.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "tessera/base/json.h"
#include "tessera/config/print.h"
#include "tessera/config/resolve.h"
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

TEST(Resume, AnyStepGivesEqualBits) {
  const test::TempFolder temp;
  run(run_options(temp / "whole"));
  const std::map<std::string, double> whole = losses_of(temp / "whole");
  ASSERT_GE(whole.size(), static_cast<std::size_t>(kSteps));
  const bool all = std::getenv("TESSERA_FULL") != nullptr;
  for (std::int64_t stop = 1; stop < kSteps; stop += all ? 1 : 6) {
    const fs::path folder = temp / fmt::format("resumed{}", stop);
    copy_checkpoint(temp / "whole", folder, stop);
    Options options = run_options(folder);
    options.train.load = folder.string();
    options.train.save_interval = kSteps;
    run(options);
    EXPECT_EQ(final_file(folder, "model.safetensors"),
              final_file(temp / "whole", "model.safetensors"))
        << stop;
    EXPECT_EQ(final_file(folder, "optimizer.safetensors"),
              final_file(temp / "whole", "optimizer.safetensors"));
    for (const auto& [key, loss] : losses_of(folder))
      EXPECT_EQ(loss, whole.at(key)) << key << " after " << stop;
  }
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

TEST(Resume, SavingAnIterationAgainReplacesIt) {
  const test::TempFolder temp;
  Options options = run_options(temp / "run");
  options.train.train_iters = 2;
  run(options);
  const fs::path file = temp / "run/iter_0000002/model.safetensors";
  const std::string before = read_text_file(file);
  options.train.seed = 99;
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
  EXPECT_EQ(trainer.session().optimizer().steps(), 0);
  // The weights are the checkpoint's, not the seed's.
  const SafetensorsFile saved(temp / "run/iter_0000003/model.safetensors");
  const ConstView norm = saved.view("final_norm.weight");
  const ParameterBuffers& buffers = trainer.session().parameters();
  for (const Parameter* parameter : buffers.parameters())
    if (parameter->name() == "final_norm.weight") {
      EXPECT_EQ(std::memcmp(parameter->value().raw(), norm.raw(), norm.bytes()), 0);
    }
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

TEST(Resume, AStepThatIsNotFiniteStopsBeforeAnythingIsSaved) {
  const test::TempFolder temp;
  Options options = run_options(temp / "run");
  options.train.train_iters = 2;
  Trainer trainer(options, print_config(options), {0, 1, 1, make_self_communicator()});
  for (const Parameter* parameter : trainer.session().parameters().parameters())
    if (parameter->name() == "final_norm.weight")
      parameter->value().data<float>()[0] = std::nanf("");
  EXPECT_THROW(trainer.run(), Error);
  EXPECT_FALSE(fs::exists(temp / "run/iter_0000001"));
}

}  // namespace
}  // namespace tessera
