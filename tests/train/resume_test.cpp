// Checkpoints of a run: a cut-off save, folders of other runs, finetuning, finished runs, and
// refusals.
#include <gtest/gtest.h>

#include <cstring>

#include "tessera/checkpoint/safetensors_reader.h"
#include "tests/support/expect_error.h"
#include "tests/support/saved_tensors.h"
#include "tests/train/trainer_run.h"

namespace tessera {
namespace {

using test::run;
using test::run_options;

TEST(Resume, ACutOffSaveLeavesTheOldCheckpoint) {
  const test::TempFolder temp;
  Options options = run_options(temp / "run");
  options.train.train_iters = 2;
  run(options);
  // What a crash in the middle of a save leaves behind: a temporary folder with half a file.
  const fs::path half = temp / "run" / "iter_0000003.tmp-12ab34cd";
  fs::create_directories(half);
  std::ofstream(half / "model-00000.safetensors") << "half";
  options.train.load = options.train.save;
  options.train.train_iters = 4;
  run(options);
  EXPECT_EQ(Checkpoint::find(temp / "run")->iteration(), 4);
  EXPECT_FALSE(fs::exists(half));
}

// Killed between the rename of a checkpoint and the file that names it.
TEST(Resume, ACheckpointNeedsNoName) {
  const test::TempFolder temp;
  Options options = run_options(temp / "run");
  options.train.train_iters = 2;
  options.train.save_interval = 2;
  run(options);
  fs::remove(temp / "run" / "latest_checkpointed_iteration.txt");
  test::expect_input_error([&] { run(options); }, {"--save", "another run", "--load"});
  options.train.load = options.train.save;
  EXPECT_EQ(test::trainer_of(options).progress().iteration, 2);
  fs::create_directories(temp / "run" / "iter_0000007");  // no manifest: not taken
  EXPECT_EQ(test::trainer_of(options).progress().iteration, 2);
  fs::remove(temp / "run" / "iter_0000002" / kManifestFile);
  test::expect_input_error([&] { test::trainer_of(options); }, {"none of its 2", "iter_0000007"});
}

TEST(Resume, ANewRunDoesNotGrowIntoAnOldOne) {
  const test::TempFolder temp;
  Options options = run_options(temp / "run");
  options.train.train_iters = 2;
  run(options);
  test::expect_input_error([&] { run(options); }, {"--save", "another run", "--load"});
  EXPECT_EQ(Checkpoint::find(temp / "run")->iteration(), 2);
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
  const SafetensorsFile saved(temp / "run/iter_0000003/model-00000.safetensors");
  const ConstView norm = saved.view("final_norm.weight");
  int found = 0;
  for (const Parameter* parameter : session.parameters().parameters())
    if (parameter->name() == "final_norm.weight") {
      ++found;
      EXPECT_EQ(std::memcmp(parameter->value().raw(), norm.raw(), norm.bytes()), 0);
    }
  EXPECT_EQ(found, 1);
}

TEST(Resume, GoingBackLeavesNoNewerCheckpointBehind) {
  const test::TempFolder temp;
  Options options = run_options(temp / "run");
  options.train.train_iters = 3;
  run(options);
  options.train.load = options.train.save;
  options.train.ckpt_step = 2;
  test::expect_input_error([&] { run(options); }, {"--ckpt-step 2", "iteration 3", "move it away"});
  Options tuned = options;
  tuned.train.ckpt_step = -1;
  tuned.train.finetune = true;
  test::expect_input_error([&] { run(tuned); }, {"--finetune", "another folder"});
  options.train.save = (temp / "other").string();
  run(options);
  EXPECT_TRUE(test::saved_tensors(temp / "other", 3) == test::saved_tensors(temp / "run", 3));
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
  EXPECT_TRUE(fs::exists(temp / "run/iter_0000003/optimizer-00000.safetensors"));
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

}  // namespace
}  // namespace tessera
