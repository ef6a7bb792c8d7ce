// Whole runs of data-parallel ranks: they train and evaluate as one rank does, what is saved and
// evaluated right after a step is of the new weights, and checkpoints go on in any layout.
#include <gtest/gtest.h>

#include "tests/support/saved_tensors.h"
#include "tests/train/trainer_run.h"

namespace tessera {
namespace {

using test::losses_of;

constexpr std::int64_t kDataSteps = 8;

struct DataLayout {
  int data = 1;
  int tensor = 1;
  Sharding sharding = Sharding::none;
  bool overlap = false;
};

Options data_rank_options(const fs::path& folder, const DataLayout& layout) {
  Options options = test::ranks_options(folder, kDataSteps);
  options.train.calculate_per_token_loss = true;
  ParallelOptions& p = options.parallel;
  p.tensor = layout.tensor;
  p.sequence_parallel = layout.tensor > 1;
  p.nproc = layout.tensor * layout.data;
  p.fsdp = true;
  p.fsdp_strategy = layout.sharding;
  p.overlap_grad_reduce = p.overlap_param_gather = layout.overlap;
  p.bucket_elements = 2'000;
  resolve(options);
  return options;
}

using test::saved_tensors;

TEST(DataRanks, TrainAndEvaluateAsOneDoes) {
  const test::TempFolder temp;
  test::run(data_rank_options(temp / "one", {}));
  const std::vector<double> want = losses_of(temp / "one");
  EXPECT_GT(want.size(), static_cast<std::size_t>(kDataSteps)) << "evaluations count, too";
  for (const DataLayout& layout : std::vector<DataLayout>{{4, 1, Sharding::none, true},
                                                          {2, 2, Sharding::optimizer, true},
                                                          {2, 1, Sharding::gradients, false},
                                                          {4, 1, Sharding::parameters, true}}) {
    const fs::path folder = temp / fmt::format("ranks{}", static_cast<int>(layout.sharding));
    test::run(data_rank_options(folder, layout));
    test::expect_near(losses_of(folder), want, 1e-5);
  }
}

// Gathers that run beside the next forward pass are waited for by whoever comes first.
TEST(DataRanks, SeeNewWeightsRightAfterAStep) {
  const test::TempFolder temp;
  for (const Sharding sharding : {Sharding::optimizer, Sharding::gradients, Sharding::parameters}) {
    const auto run = [&](const char* name, bool overlap) {
      Options options = data_rank_options(temp / name, {2, 1, sharding, overlap});
      options.train.eval_interval = 1;  // evaluates and saves after every step
      options.train.save_interval = 1;
      options.train.exit_interval = 5;  // and stops after the last
      test::run(options);
    };
    run("plain", false);
    run("overlapped", true);
    EXPECT_EQ(losses_of(temp / "plain"), losses_of(temp / "overlapped"));
    for (std::int64_t i = 1; i <= 5; ++i) {
      EXPECT_TRUE(saved_tensors(temp / "plain", i) == saved_tensors(temp / "overlapped", i)) << i;
      if (i == 1) continue;
      EXPECT_FALSE(saved_tensors(temp / "plain", i) == saved_tensors(temp / "plain", i - 1)) << i;
    }
    fs::remove_all(temp / "plain");
    fs::remove_all(temp / "overlapped");
  }
}

// A third of a run in each of three layouts.
TEST(DataRanks, GoOnInAnotherLayout) {
  const test::TempFolder temp;
  test::run(data_rank_options(temp / "whole", {}));
  const auto part = [&](const DataLayout& layout, std::int64_t end) {
    Options options = data_rank_options(temp / "parts", layout);
    options.train.save_interval = end;
    options.train.exit_interval = end;
    options.train.load = (temp / "parts").string();
    test::run(options);
  };
  part({4, 1, Sharding::optimizer, true}, 3);
  part({2, 2, Sharding::parameters, true}, 6);
  part({}, kDataSteps);
  const std::vector<double> want = losses_of(temp / "whole");
  const std::vector<double> got = losses_of(temp / "parts");
  ASSERT_FALSE(got.empty());
  EXPECT_NEAR(got.back(), want.back(), 1e-5 * want.back());
}

TEST(DataRanks, ResumeWithEqualBits) {
  for (const Sharding sharding : {Sharding::none, Sharding::optimizer, Sharding::parameters}) {
    const test::TempFolder temp;
    Options options = data_rank_options(temp / "run", {2, 1, sharding, true});
    options.train.save_interval = kDataSteps / 2;
    test::run(options);
    const auto weights = saved_tensors(temp / "run", kDataSteps);
    fs::remove_all(temp / "run" / fmt::format("iter_{:07}", kDataSteps));
    options.train.load = options.train.save;
    test::run(options);
    EXPECT_TRUE(saved_tensors(temp / "run", kDataSteps) == weights);
  }
}

// Frozen tensors are in checkpoints as they were, and a run goes on from them.
TEST(DataRanks, ResumeWithFrozenParameters) {
  const test::TempFolder temp;
  Options options = data_rank_options(temp / "run", {2, 1, Sharding::parameters, true});
  options.optimizer.frozen = {"embedding.*", "layers.0.*"};
  options.train.save_interval = kDataSteps / 2;
  test::run(options);
  const auto weights = saved_tensors(temp / "run", kDataSteps);
  fs::remove_all(temp / "run" / fmt::format("iter_{:07}", kDataSteps));
  options.train.load = options.train.save;
  test::run(options);
  EXPECT_TRUE(saved_tensors(temp / "run", kDataSteps) == weights);
}

}  // namespace
}  // namespace tessera
