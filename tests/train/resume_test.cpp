// Checkpoints of a run: a cut-off save, folders of other runs, finetuning, finished runs, and
// refusals.
#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "tessera/checkpoint/format/safetensors_reader.h"
#include "tests/support/expect_error.h"
#include "tests/support/saved_tensors.h"
#include "tests/train/trainer_run.h"

namespace tessera {
namespace {

using test::kSteps;
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

// Other batches, or a longer run: the samples come in the order that the run began with.
TEST(Resume, TheOrderOfSamplesOutlivesBatchesAndLengths) {
  Options options = run_options("unused");
  const std::int64_t began = options.train.train_iters * options.train.global_batch_size;
  const Datasets before(options, {}, began);
  const Dataset& first = *before.train();
  EXPECT_EQ(before.order_samples(), std::vector<std::int64_t>{began});
  const auto tokens = [](const Dataset& data, std::int64_t i) {
    const auto length = static_cast<std::size_t>(data.seq_length());
    std::vector<std::int32_t> sample(length), labels(length), positions(length);
    std::vector<float> mask(length);
    data.get(i, {sample, labels, mask, positions});
    return sample;
  };
  for (const std::int64_t needed : {began / 3, began, 20 * began}) {
    const Datasets after(options, before.order_samples(), needed);
    const Dataset& now = *after.train();
    ASSERT_GE(now.size(), needed);
    for (std::int64_t i = 0; i < first.size(); ++i)
      EXPECT_EQ(tokens(now, i), tokens(first, i)) << i << " of " << needed;
    // And again, by what it says now.
    const Datasets again(options, after.order_samples(), needed / 2);
    EXPECT_EQ(again.train()->size(), now.size());
    EXPECT_EQ(tokens(*again.train(), needed - 1), tokens(now, needed - 1));
  }
}

std::map<std::int64_t, double> rates_of(const fs::path& folder) {
  std::map<std::int64_t, double> rates;
  for (const Json& entry : test::metrics_of(folder))
    if (entry.contains("learning_rate")) rates[entry["iteration"]] = entry["learning_rate"];
  return rates;
}

TEST(Resume, AScheduleInIterationsKeepsItsPlaceWithOtherBatches) {
  const test::TempFolder temp;
  run(run_options(temp / "whole"));
  for (const std::int64_t batch : {2, 8}) {
    const fs::path folder = temp / std::to_string(batch);
    Options options = run_options(folder);
    options.train.exit_interval = options.train.save_interval = 8;
    run(options);
    options.train.exit_interval = 0;
    options.train.load = options.train.save;
    options.train.global_batch_size = batch;
    run(options);
    EXPECT_EQ(rates_of(folder), rates_of(temp / "whole"));
    EXPECT_EQ(test::metrics_of(folder).back()["iteration"], kSteps);
  }
}

TEST(Resume, ARunOfSamplesEndsWithThem) {
  const test::TempFolder temp;
  const auto options_for = [&](const char* name, std::int64_t batch) {
    Options options = run_options(temp / name);
    options.train.train_samples = kSteps * options.train.global_batch_size;
    options.train.global_batch_size = batch;
    options.train.save_interval = 8;
    options.schedule.warmup_iters = 0;
    options.schedule.decay_iters = 0;
    options.schedule.decay_samples = options.train.train_samples;
    return options;
  };
  run(options_for("whole", 4));
  Options options = options_for("run", 4);
  options.train.exit_interval = 8;
  run(options);
  options = options_for("run", 8);
  options.train.load = options.train.save;
  {
    Trainer trainer = test::trainer_of(options);
    trainer.run();
    EXPECT_EQ(trainer.progress().consumed_samples, options.train.train_samples);
    EXPECT_EQ(trainer.progress().iteration, 8 + (kSteps - 8) / 2);
  }
  // The rate at a sample is what it would have been.
  const std::map<std::int64_t, double> rates = rates_of(temp / "run");
  const std::map<std::int64_t, double> whole = rates_of(temp / "whole");
  for (std::int64_t i = 9; i <= 14; ++i) EXPECT_EQ(rates.at(i), whole.at(9 + 2 * (i - 9)));
  options = options_for("run", 4);
  options.train.load = options.train.save;
  options.schedule.warmup_iters = 3;
  test::expect_input_error([&] { test::trainer_of(options); }, {"it was 8", "--lr-warmup-iters"});
}

// A crash or a full disk cut off the last line of the metrics.
TEST(Resume, ATornLineOfMetricsIsDropped) {
  const test::TempFolder temp;
  Options options = run_options(temp / "run");
  options.train.train_iters = 2;
  run(options);
  const fs::path file = temp / "run/metrics.jsonl";
  fs::resize_file(file, fs::file_size(file) - 20);
  options.train.load = options.train.save;
  options.train.train_iters = 3;
  run(options);
  EXPECT_EQ(test::metrics_of(temp / "run").back()["iteration"], 3);
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
  refused(
      [](Options& o) {
        o.data.data_path = {"0.3", test::small_data(), "0.7", test::small_data()};
      },
      "data-path");
  refused([](Options& o) { o.optimizer.frozen = {"layers.0.*"}; },
          "freeze-parameters: nothing there");
  refused(
      [](Options& o) {
        o.optimizer.frozen = {"layers.0.*", "layers.1.*"};
      },
      "freeze-parameters: nothing there, \"layers.0.*\" \"layers.1.*\" now");
}

}  // namespace
}  // namespace tessera
