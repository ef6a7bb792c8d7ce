// A whole run on several ranks: its losses are one rank's, its checkpoints go on in any layout, and
// rank 0 alone writes.
#include <gtest/gtest.h>

#include "tests/support/expect_error.h"
#include "tests/support/saved_tensors.h"
#include "tests/train/trainer_run.h"

namespace tessera {
namespace {

using test::kSteps;

Options tensor_rank_options(const fs::path& folder, int tensor, bool sequence_parallel) {
  Options options = test::run_options(folder);
  options.model.num_attention_heads = options.model.num_query_groups = 4;
  options.model.kv_channels = options.model.hidden_size / 4;
  options.parallel.tensor = options.parallel.nproc = tensor;
  options.parallel.sequence_parallel = sequence_parallel;
  return options;
}

std::vector<double> step_losses(const fs::path& folder) {
  std::vector<double> losses;
  for (const Json& entry : test::metrics_of(folder))
    if (entry.contains("lm_loss")) losses.push_back(entry["lm_loss"]);
  return losses;
}

TEST(Ranks, TrainAsOneDoes) {
  const test::TempFolder temp;
  test::run(tensor_rank_options(temp / "one", 1, false));
  test::run(tensor_rank_options(temp / "four", 4, true));
  EXPECT_EQ(step_losses(temp / "one").size(), static_cast<std::size_t>(kSteps));
  test::expect_near(step_losses(temp / "four"), step_losses(temp / "one"), 1e-5);
}

// Half of a run in one layout, the other half in another.
TEST(Ranks, GoOnInAnotherLayout) {
  const test::TempFolder temp;
  test::run(tensor_rank_options(temp / "whole", 1, false));
  const auto half = [&](int tensor, bool sequence_parallel, std::int64_t end) {
    Options options = tensor_rank_options(temp / "parts", tensor, sequence_parallel);
    options.train.save_interval = kSteps / 2;
    options.train.exit_interval = end;
    options.train.load = (temp / "parts").string();
    test::run(options);
  };
  half(4, true, kSteps / 2);
  half(2, false, kSteps);
  test::expect_near(step_losses(temp / "parts"), step_losses(temp / "whole"), 1e-5);
}

// Machines may have other files under the same name.
TEST(Ranks, DifferentDataAndCheckpointsAreFound) {
  const test::TempFolder temp;
  const auto start = [&](const auto& change) {
    run_ranks(2, 1, [&](Rank& rank) {
      Options options = tensor_rank_options(temp / "run", 2, false);
      if (rank.rank == 1) change(options);
      Trainer(options, print_config(options), rank);
    });
  };
  start([](Options&) {});
  test::expect_input_error([&] { start([](Options& o) { o.data.seed += 1; }); },
                           {"first samples", "rank 1"});
  test::run(tensor_rank_options(temp / "saved", 2, false));
  test::expect_input_error(
      [&] {
        run_ranks(2, 1, [&](Rank& rank) {
          Options options = tensor_rank_options(temp / "other", 2, false);
          options.train.load = (temp / (rank.rank == 0 ? "saved" : "none")).string();
          Trainer(options, print_config(options), rank);
        });
      },
      {"iteration: 20", "rank 1"});
}

TEST(Ranks, ResumeWithEqualBits) {
  const test::TempFolder temp;
  Options options = tensor_rank_options(temp / "run", 2, true);
  options.train.save_interval = kSteps / 2;
  test::run(options);
  const fs::path last = temp / "run" / fmt::format("iter_{:07}", kSteps);
  const auto tensors = test::saved_tensors(temp / "run", kSteps);
  fs::remove_all(last);
  options.train.load = options.train.save;
  test::run(options);
  EXPECT_TRUE(test::saved_tensors(temp / "run", kSteps) == tensors);
}

}  // namespace
}  // namespace tessera
