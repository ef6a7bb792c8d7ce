// Gradients of f16 that overflow, in real steps: the step is skipped and leaves no trace, and the
// loss scale follows Megatron's rules. Batches whose masks weigh two tokens by plus and minus 10^9
// overflow: the gradient of a logit is above what f16 holds at any scale here, the loss is finite.
#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

#include "tessera/optim/schedule.h"
#include "tests/train/session_run.h"
#include "tests/train/trainer_run.h"

namespace tessera {
namespace {

struct Outcome {
  std::vector<StepRecord> records;
  test::Bits bits;
};

double rate_of_update(std::int64_t i) { return 1e-4 * static_cast<double>(i + 1); }

// Trains by letters: 'g' is a good step on the next samples, 'b' a bad one whose gradients
// overflow. Nobody looks before the last one.
Outcome train_letters(const SessionOptions& options, const std::string& letters) {
  Session session(options, {0, 1, 2, make_self_communicator()});
  std::vector<double> rates;
  for (std::int64_t i = 0; i < 32; ++i) rates.push_back(rate_of_update(i));
  session.optimizer().set_rates(session.context(), rates);
  test::RandomBatches batches(options);
  HostBatch bad = test::random_batch(options.shape, options.model.vocab_size, 1000);
  bad.loss_mask[0] = 1e9f;
  bad.loss_mask[1] = -1e9f;
  Steps steps(session, LossAverage::per_microbatch);
  for (const char letter : letters)
    steps.submit([&]() -> const HostBatch& { return letter == 'b' ? bad : batches.next(); });
  return {steps.collect(), test::bits_of(session)};
}

class LossScale : public testing::TestWithParam<Device> {
 protected:
  SessionOptions options_ = [] {
    SessionOptions options = test::wide_session("llama", GetParam(), DType::f16);
    options.optimizer.loss_scale_window = 8;
    return options;
  }();

  // Steps by letters, and the scale that each of them should compute with.
  void expect_scales(const std::string& letters, const std::vector<double>& scales) const {
    const std::vector<StepRecord> records = train_letters(options_, letters).records;
    ASSERT_EQ(records.size(), letters.size());
    ASSERT_EQ(scales.size(), letters.size());
    std::int64_t updates = 0;
    for (std::size_t i = 0; i < letters.size(); ++i) {
      SCOPED_TRACE(i);
      const StepRecord& record = records[i];
      const bool bad = letters[i] == 'b';
      EXPECT_EQ(record.loss_scale, scales[i]);
      EXPECT_EQ(record.skipped, bad ? 1 : 0);
      EXPECT_EQ(record.failed, 0);
      EXPECT_EQ(std::isfinite(record.grad_norm), !bad);
      EXPECT_TRUE(std::isfinite(record.loss));
      EXPECT_EQ(record.learning_rate, rate_of_update(updates)) << "a skipped step uses no rate up";
      updates += bad ? 0 : 1;
      EXPECT_EQ(record.step, updates) << "Adam counts updates";
    }
  }
};

constexpr double kHigh = 65536, kHalf = 32768, kQuarter = 16384;

TEST_P(LossScale, TheSecondOverflowHalvesItAndAWindowOfGoodStepsDoublesIt) {
  expect_scales(
      "gggb"
      "ggb"
      "gggggggg"
      "bbb"
      "g",
      {kHigh, kHigh, kHigh, kHigh,                              // the first
       kHigh, kHigh, kHigh,                                     // the second
       kHalf, kHalf, kHalf, kHalf, kHalf, kHalf, kHalf, kHalf,  // the window
       kHigh, kHigh, kHalf,                                     // counted anew
       kQuarter});
}

TEST_P(LossScale, GoodStepsThatAreNoWindowDoNotForgive) {
  expect_scales("bgggggggbgggggggb", {kHigh, kHigh, kHigh, kHigh, kHigh, kHigh, kHigh, kHigh, kHigh,
                                      kHalf, kHalf, kHalf, kHalf, kHalf, kHalf, kHalf, kHalf});
}

TEST_P(LossScale, HasALeastValue) {
  options_.optimizer.initial_loss_scale = 16;
  options_.optimizer.min_loss_scale = 8;
  expect_scales("bbbbg", {16, 16, 8, 8, 8});
}

TEST_P(LossScale, AConstantOneStays) {
  options_.optimizer.loss_scale = 1024;
  expect_scales("gbbbg", {1024, 1024, 1024, 1024, 1024});
}

TEST_P(LossScale, ASkippedStepLeavesEveryBitAsItWas) {
  const Outcome before = train_letters(options_, "ggg");
  test::expect_equal_bits(train_letters(options_, "gggb").bits, before.bits);
  test::expect_equal_bits(train_letters(options_, "gggbb").bits, before.bits);
}

// Not the steps after it either: schedule, Adam's count and dropout do not know of it.
TEST_P(LossScale, ARunWithASkippedStepIsTheRunWithoutIt) {
  const Outcome without = train_letters(options_, "gggggg");
  const Outcome with = train_letters(options_, "gggbggg");
  test::expect_equal_bits(with.bits, without.bits);
  for (const std::size_t i : {3, 4, 5}) {
    EXPECT_EQ(with.records[i + 1].loss, without.records[i].loss);
    EXPECT_EQ(with.records[i + 1].grad_norm, without.records[i].grad_norm);
    EXPECT_EQ(with.records[i + 1].learning_rate, without.records[i].learning_rate);
  }
}

// What the log lines of a run count as skipped, and the scales that they give.
struct Logged {
  std::int64_t lines = 0;
  std::int64_t skipped = 0;
  std::vector<double> scales;
};

Logged logged_in(const std::string& text) {
  Logged result;
  const auto number_behind = [](const std::string& line, const std::string& name) {
    return std::stod(line.substr(line.find(name) + name.size()));
  };
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.find("lm loss:") == std::string::npos) continue;
    ++result.lines;
    result.skipped +=
        static_cast<std::int64_t>(number_behind(line, "number of skipped iterations:"));
    result.scales.push_back(number_behind(line, "loss scale:"));
  }
  return result;
}

// At 2^30 gradients of f16 overflow by themselves: the first steps are skipped, and count nowhere.
TEST_P(LossScale, SkippedStepsOfARunMoveNeitherScheduleNorOptimizer) {
  const test::TempFolder temp;
  Options options = test::run_options(temp / "run", GetParam());
  options.model.dtype = DType::f16;
  options.optimizer.initial_loss_scale = 0x1p30;
  options.train.save_interval = test::kSteps;
  options.train.log_interval = 5;  // a GPU tells what became of five steps at once
  testing::internal::CaptureStderr();
  test::run(options);
  const Logged logged = logged_in(testing::internal::GetCapturedStderr());
  std::int64_t skipped = 0;
  double scale = 0x1p30;
  for (const Json& entry : test::metrics_of(temp / "run")) {
    if (!entry.contains("lm_loss")) continue;
    const std::int64_t iteration = entry["iteration"];
    const bool bad = entry["skipped"];
    EXPECT_EQ(entry["loss_scale"], scale) << iteration;
    EXPECT_EQ(entry["grad_norm"].is_null(), bad) << iteration;
    EXPECT_EQ(entry["learning_rate"],
              learning_rate(options.schedule, 4, (iteration - 1 - skipped) * 4));
    if (iteration % 5 == 0) {
      EXPECT_EQ(logged.scales.at(static_cast<std::size_t>(iteration / 5 - 1)), scale);
    }
    skipped += bad ? 1 : 0;
    if (bad && skipped > 1) scale /= 2;
  }
  EXPECT_GT(skipped, 3);
  EXPECT_LT(skipped, test::kSteps - 3);
  EXPECT_EQ(logged.lines, test::kSteps / 5);
  EXPECT_EQ(logged.skipped, skipped) << "the log lines say so";
  const std::optional<Checkpoint> saved = Checkpoint::find(temp / "run");
  EXPECT_EQ(saved->counter("optimizer_steps"), test::kSteps - skipped);
  EXPECT_EQ(saved->counter("schedule_samples"), (test::kSteps - skipped) * 4);
  EXPECT_EQ(saved->counter("consumed_samples"), test::kSteps * 4);
  EXPECT_EQ(saved->number("loss_scale"), scale);
}

INSTANTIATE_TEST_SUITE_P(Devices, LossScale, testing::ValuesIn(test::devices()),
                         [](const auto& test) { return test::device_name(test.param); });

}  // namespace
}  // namespace tessera
