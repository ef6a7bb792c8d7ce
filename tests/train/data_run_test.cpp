// What a run reads: order and exactly-once over resumes, validation sets, data by split.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "tests/support/expect_error.h"
#include "tests/train/trainer_run.h"

namespace tessera {
namespace {

bool full() { return std::getenv("TESSERA_FULL") != nullptr; }

// Other tokens than small_data has, and fewer.
std::string other_data() {
  static const test::TempFolder folder;
  static const std::string prefix = [] {
    std::string path = (folder / "other").string();
    IndexedDatasetWriter writer(path, TokenType::u16);
    for (std::int32_t d = 0; d < 9; ++d)
      writer.add_document(std::vector<std::int32_t>(static_cast<std::size_t>(25 + d), d));
    writer.finish();
    return path;
  }();
  return prefix;
}

Json state_in(const fs::path& folder) {
  return Json::parse(Checkpoint::open(folder, std::nullopt).manifest().state);
}

// One step at a time, each time on other ranks, and once in one go.
void expect_same_order(Options options, const fs::path& folder) {
  const std::int64_t steps = options.train.train_iters;
  options.train.save = (folder / "straight").string();
  test::run(options);
  struct RunLayout {
    int data, micro, context = 1;
  };
  const std::vector<RunLayout> layouts{{1, 2}, {2, 1}, {4, 1}, {2, 2, 2}, {8, 1}, {2, 2}};
  for (std::int64_t i = 0; i < steps; ++i) {
    const auto [data, micro, context] = layouts[static_cast<std::size_t>(i * 5 % 6)];
    options.parallel.data = data;
    options.parallel.context = context;
    options.train.micro_batch_size = micro;
    options.train.save = options.train.load = (folder / "resumed").string();
    options.train.exit_interval = 1;
    test::run(options);
  }
  const Json straight = state_in(folder / "straight");
  const Json resumed = state_in(folder / "resumed");
  EXPECT_EQ(resumed["iteration"], steps);
  EXPECT_EQ(resumed["consumed_samples"], straight["consumed_samples"]);
  EXPECT_EQ(resumed["order_digest"], straight["order_digest"]);
}

TEST(DataRun, ResumedOnOtherRanksItTrainsOnEachSampleOnceInOrder) {
  const test::TempFolder folder;
  Options options = test::ranks_options(folder / "straight", full() ? 51 : 7);
  options.train.eval_iters = 0;
  options.data.data_path = {"0.7", test::small_data(), "0.3", other_data()};
  expect_same_order(options, folder / "single");
  options.data.data_path = {test::small_data(), other_data()};
  options.data.dataloader = SampleOrderKind::cyclic;
  options.train.micro_batch_size = 2;
  expect_same_order(options, folder / "cyclic");
  EXPECT_EQ(state_in(folder / "cyclic" / "resumed")["order_micro_batch_size"], 2);
}

TEST(DataRun, AnOrderThatHasChangedIsNoticed) {
  const test::TempFolder folder;
  Options options = test::ranks_options(folder / "run", 20);
  options.train.eval_iters = 0;
  options.train.exit_interval = 1;
  options.train.load = options.train.save;
  const auto put = [&](const std::string& prefix) {
    for (const char* suffix : {".bin", ".idx"})
      fs::copy_file(prefix + suffix, (folder / "data").string() + suffix,
                    fs::copy_options::overwrite_existing);
  };
  put(test::small_data());
  options.data.data_path = {(folder / "data").string()};
  const auto logged = [&] {
    testing::internal::CaptureStderr();
    test::run(options);
    return testing::internal::GetCapturedStderr().find("some will come twice") != std::string::npos;
  };
  EXPECT_FALSE(logged());
  EXPECT_FALSE(logged());
  options.train.train_iters = 100;  // takes more epochs, but the first ones stay as they are
  EXPECT_FALSE(logged());
  put(other_data());
  EXPECT_TRUE(logged());
}

TEST(DataRun, DataThatHasMovedIsTheSame) {
  const test::TempFolder folder;
  Options options = test::ranks_options(folder / "run", 20);
  options.train.exit_interval = 1;
  options.train.load = options.train.save;
  test::run(options);
  const std::string moved = (folder / "moved").string();
  for (const char* suffix : {".bin", ".idx"})
    fs::copy_file(test::small_data() + suffix, moved + suffix);
  options.data.data_path = {moved};
  test::run(options);
  EXPECT_EQ(state_in(folder / "run")["iteration"], 2);
  options.data.data_path = {other_data()};
  test::expect_input_error([&] { test::run(options); },
                           {"are not those of the data", "--finetune"});
  EXPECT_EQ(state_in(folder / "run")["iteration"], 2);
}

// Losses by their name: those of sets, and "valid".
std::map<std::string, double> validation_of(const fs::path& folder) {
  std::map<std::string, double> losses;
  for (const Json& entry : test::metrics_of(folder)) {
    if (entry.contains("valid_set_loss")) losses[entry["set"]] = entry["valid_set_loss"];
    if (entry.contains("valid_loss")) losses["valid"] = entry["valid_loss"];
    if (entry.contains("lm_loss")) {
      EXPECT_GE(entry["data_wait"].get<double>(), 0);
    }
  }
  return losses;
}

// A run that does not learn, so that all evaluate the same model.
Options still_options(const fs::path& folder) {
  Options options = test::ranks_options(folder, 1);
  options.data.data_path = {};
  options.data.train_data_path = {test::small_data()};
  options.data.valid_data_path = {test::small_data(), other_data()};
  options.data.multiple_validation_sets = true;
  options.model.hidden_dropout = options.model.attention_dropout = 0;
  options.schedule.lr = options.schedule.min_lr = 0;
  options.train.eval_interval = 1;
  options.train.save = folder.string();
  return options;
}

TEST(DataRun, ValidationSetsAreEvaluatedByThemselves) {
  const test::TempFolder folder;
  Options options = still_options(folder / "both");
  test::run(options);
  const auto both = validation_of(folder / "both");
  ASSERT_EQ(both.size(), 3u);
  EXPECT_NEAR(both.at("valid"), (both.at("tokens") + both.at("other")) / 2, 1e-6);
  EXPECT_NE(both.at("tokens"), both.at("other"));
  options.data.valid_data_path = {other_data()};
  options.train.save = (folder / "one").string();
  test::run(options);
  EXPECT_EQ(validation_of(folder / "one").at("valid"), both.at("other"));
}

TEST(DataRun, FullValidationIsTheSameForAllBatchesAndRanks) {
  const test::TempFolder folder;
  Options options = still_options(folder / "plain");
  options.data.full_validation = true;
  options.train.eval_iters = 1;
  test::run(options);
  const auto plain = validation_of(folder / "plain");
  ASSERT_EQ(plain.size(), 3u);
  const auto expect_same = [&](const std::string& name, auto change) {
    Options other = options;
    change(other);
    other.train.save = (folder / name).string();
    test::run(other);
    for (const auto& [set, loss] : validation_of(folder / name))
      EXPECT_NEAR(loss, plain.at(set), 1e-5) << name << " " << set;
  };
  expect_same("batch", [](Options& o) { o.train.global_batch_size = 6; });
  expect_same("data", [](Options& o) { o.parallel.data = 4; });
  expect_same("stages", [](Options& o) { o.parallel.pipeline = 2; });
}

// As small_data, but of tokens that no vocabulary has: whoever reads them throws.
std::string poison() {
  static const test::TempFolder folder;
  std::string prefix = (folder / "poison").string();
  fs::copy_file(test::small_data() + ".idx", prefix + ".idx", fs::copy_options::overwrite_existing);
  write_file_atomically(prefix + ".bin",
                        std::string(fs::file_size(test::small_data() + ".bin"), '\xff'));
  return prefix;
}

// Stages that have neither the embedding nor the head read no tokens, not even to compare them.
TEST(DataRun, StagesInTheMiddleReadNoTokens) {
  const test::TempFolder folder;
  Options options = test::ranks_options(folder / "one", 3);
  options.model.num_layers = 3;
  test::run(options);
  const std::vector<double> one = test::losses_of(folder / "one");
  options.parallel.pipeline = 3;
  const auto run_poisoned = [&](int poisoned) {
    options.train.save = (folder / std::to_string(poisoned)).string();
    run_ranks(3, 1, [&](Rank& rank) {
      Options own = options;
      if (rank.rank == poisoned) own.data.data_path = {poison()};
      Trainer trainer(own, print_config(options), rank);
      trainer.run();
    });
  };
  run_poisoned(1);
  const std::vector<double> three = test::losses_of(folder / "1");
  ASSERT_EQ(three.size(), one.size());
  for (std::size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(three[i], one[i], 1e-4);
  for (const int reader : {0, 2}) EXPECT_THROW(run_poisoned(reader), std::exception) << reader;
}

// A machine may have other files under the same name.
TEST(DataRun, RanksWithOtherDataAreRefused) {
  const test::TempFolder folder;
  Options options = test::ranks_options(folder / "run", 3);
  options.parallel.data = 2;
  try {
    run_ranks(2, 1, [&](Rank& rank) {
      Options own = options;
      if (rank.rank == 1) own.data.data_path = {other_data()};
      Trainer trainer(own, print_config(options), rank);
    });
    FAIL() << "it ran";
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("first samples"), std::string::npos) << error.what();
  }
}

TEST(DataRun, DataThatDoesNotLastIsRefused) {
  const test::TempFolder folder;
  Options options = test::ranks_options(folder / "run", 100);
  options.data.data_path = {test::small_data(), other_data()};
  try {
    test::run(options);
    FAIL() << "it ran";
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("give weights"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace tessera
