// A run that goes on in another precision, with another seed, or without a part of its state.
#include <gtest/gtest.h>

#include "tests/support/expect_error.h"
#include "tests/support/saved_tensors.h"
#include "tests/train/trainer_run.h"

namespace tessera {
namespace {

Options precision_options(const fs::path& folder, DType dtype) {
  Options options = test::run_options(folder);
  options.model.dtype = dtype;
  options.train.train_iters = 6;
  options.train.save_interval = 3;
  options.train.eval_iters = 0;
  resolve(options);
  return options;
}

std::string tensor_of(Trainer& trainer, const Options& options, const test::TempFolder& temp,
                      const std::string& name) {
  fs::remove_all(temp / "now");
  Saver saver(trainer.session(), {temp / "now"}, [](const std::string&) {});
  saver.request(
      {3, state_of(trainer.session(), trainer.progress()), {{kConfigFile, print_config(options)}}});
  return test::saved_tensors(temp / "now", 3).at(name);
}

std::vector<float> floats(const std::string& bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

constexpr const char* kName = "layers.0.mlp.up.weight";

struct PrecisionChange {
  DType from;
  DType to;
  bool low_bits_from = true;
  bool low_bits_to = true;
};

class Precision : public testing::TestWithParam<PrecisionChange> {};

// The f32 weights behind both are the same, whatever they are kept as; moments are the same, too.
TEST_P(Precision, GoesOnInAnother) {
  const PrecisionChange& change = GetParam();
  const test::TempFolder temp;
  Options before = precision_options(temp / "run", change.from);
  before.optimizer.store_param_remainders = change.low_bits_from;
  before.train.exit_interval = 3;
  test::run(before);
  Options after = precision_options(temp / "run", change.to);
  after.optimizer.store_param_remainders = change.low_bits_to;
  after.train.load = after.train.save;
  Trainer next = test::trainer_of(after);
  EXPECT_EQ(next.progress().iteration, 3);
  const std::string moment = std::string("exp_avg.") + kName;
  const std::string saved = test::saved_tensors(temp / "run", 3).at(moment);
  if (change.to != DType::f64 && change.from != DType::f64) {
    EXPECT_TRUE(tensor_of(next, after, temp, moment) == saved);
  }
  const auto exact = [&](const fs::path& folder, Options options) {
    options.model.dtype = DType::f32;  // which shows them as they are
    options.train.load = folder.string();
    options.train.save.clear();
    resolve(options);
    Trainer f32 = test::trainer_of(options);
    return floats(tensor_of(f32, options, temp, kName));
  };
  const std::vector<float> want = exact(temp / "run", after);
  tensor_of(next, after, temp, kName);
  fs::rename(temp / "now", temp / "converted");
  if (change.to != DType::f64) {
    EXPECT_TRUE(exact(temp / "converted", after) == want);
  }
  next.run();
  EXPECT_EQ(next.progress().iteration, 6);
}

INSTANTIATE_TEST_SUITE_P(Changes, Precision,
                         testing::Values(PrecisionChange{DType::f32, DType::bf16},
                                         PrecisionChange{DType::bf16, DType::f32},
                                         PrecisionChange{DType::f32, DType::f16},
                                         PrecisionChange{DType::f16, DType::bf16},
                                         PrecisionChange{DType::bf16, DType::bf16, true, false},
                                         PrecisionChange{DType::bf16, DType::bf16, false, true},
                                         PrecisionChange{DType::bf16, DType::f16, false, true},
                                         PrecisionChange{DType::f32, DType::f64},
                                         PrecisionChange{DType::f64, DType::bf16}));

TEST(LoadedParts, AreThoseThatAreAskedFor) {
  const test::TempFolder temp;
  Options options = precision_options(temp / "run", DType::f32);
  options.model.hidden_dropout = 0.1;
  options.train.seed = options.data.seed = 77;
  options.train.exit_interval = 3;
  test::run(options);
  options.train.load = options.train.save;
  const auto steps = [](Trainer& trainer) {
    return trainer.session().optimizer().step_state(trainer.session().context()).step;
  };
  Options anew = options;
  anew.train.no_load_optim = true;
  {
    Trainer trainer = test::trainer_of(anew);
    EXPECT_EQ(trainer.progress().iteration, 3);
    EXPECT_EQ(steps(trainer), 0);
  }
  Options seeded = options;
  seeded.train.seed = 99;
  seeded.data.seed = 99;
  test::expect_input_error([&] { test::trainer_of(seeded); }, {"seed", "differs"});
  // Another seed, the same samples: only dropout differs.
  const auto loss = [&](Options run, const char* name) {
    run.train.load = (temp / "run").string();
    run.train.save = (temp / name).string();
    run.train.exit_interval = 0;
    test::run(run);
    return test::losses_of(temp / name);
  };
  seeded.train.no_load_rng = true;
  const std::vector<double> same = loss(options, "same");
  EXPECT_NE(loss(seeded, "seeded"), same);
  seeded.model.hidden_dropout = seeded.model.attention_dropout = 0;
  Options dry = options;
  dry.model.hidden_dropout = dry.model.attention_dropout = 0;
  EXPECT_EQ(loss(seeded, "dry_seeded"), loss(dry, "dry"));
  // And the same still when that run goes on by itself.
  const auto twice = [&](Options run, const char* name) {
    run.train.train_iters = 9;
    run.train.load = run.train.save = (temp / name).string();
    run.train.no_load_rng = false;
    run.train.exit_interval = 0;
    test::run(run);
    return test::losses_of(temp / name);
  };
  EXPECT_EQ(twice(seeded, "dry_seeded"), twice(dry, "dry"));
}

}  // namespace
}  // namespace tessera
