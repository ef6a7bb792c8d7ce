// A run that is killed anywhere in a save, or whose disk fails anywhere in one, has its last
// committed checkpoint, whole, and goes on from it.
#include <gtest/gtest.h>

#include <cerrno>
#include <random>
#include <thread>

#include "tests/crash/training.h"

namespace tessera {
namespace {

using test::Process;

// The second of three saves is the one that is spoiled.
constexpr std::int64_t kBefore = 2, kEnd = 6;

struct Way {
  const char* name;
  std::vector<std::string> flags;
};
const std::vector<Way> kWays{
    {"alone", {}},
    {"background", {"--async-save"}},
    {"ranks", {"--nproc", "2", "--use-distributed-optimizer"}},
    {"kept", {"--keep-last", "1"}},  // the first one goes when the second is there
};

// What is done to a call, and how often the user hears of it.
const std::vector<std::pair<std::string, std::size_t>> kFailures{
    {std::to_string(ENOSPC), 1}, {std::to_string(EIO), 1}, {"short", 0}};

class Spoiled {
 public:
  explicit Spoiled(const Way& way) : way_(way) {}

  int run(long at, const std::string& action) {
    fs::remove_all(folder());
    std::vector<std::string> args = test::tiny_training(folder(), kEnd, 2);
    args.insert(args.end(), way_.flags.begin(), way_.flags.end());
    Process process(TESSERA_PROGRAM, args,
                    {std::string("LD_PRELOAD=") + TESSERA_IO_SHIM, "IO_SHIM_FOLDER=" + folder(),
                     "IO_SHIM_BEGIN=iter_0000004.tmp-", "IO_SHIM_AT=" + std::to_string(at),
                     "IO_SHIM_ACTION=" + action, "IO_SHIM_COUNT=" + (temp_ / "count").string()});
    const int code = process.wait();
    log_ = process.output();
    return code;
  }
  /// How many calls there are to spoil.
  long calls() {
    EXPECT_EQ(run(0, ""), 0) << log_;
    return std::atol(read_text_file(temp_ / "count").c_str());
  }
  std::string folder() const { return (temp_ / "run").string(); }
  const std::string& log() const { return log_; }

 private:
  Way way_;
  test::TempFolder temp_;
  std::string log_;
};

std::size_t times(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++count;
  return count;
}

class Crash : public testing::TestWithParam<std::size_t> {
 protected:
  static const Way& way() { return kWays[GetParam()]; }
};

TEST_P(Crash, AtAnyCallLeavesTheLastCommit) {
  Spoiled run(way());
  const long calls = run.calls();
  EXPECT_GT(calls, 20);
  for (long at = 1; at <= calls; at += test::full() ? 1 : 29)
    for (const std::string action : {"kill", "killed", "power"}) {
      SCOPED_TRACE(fmt::format("{} {} of {} calls", action, at, calls));
      EXPECT_EQ(run.run(at, action), 128 + SIGKILL) << run.log();
      const std::int64_t there = test::verified_iteration(run.folder());
      EXPECT_GE(there, std::max(kBefore, test::last_saved(run.log()))) << run.log();
      if (!test::full() || action == "killed") continue;
      Process next(TESSERA_PROGRAM, test::tiny_training(run.folder(), kEnd, 2));
      EXPECT_EQ(next.wait(), 0) << next.output();
      EXPECT_EQ(test::verified_iteration(run.folder()), kEnd);
    }
}

TEST_P(Crash, ADiskThatFailsAnywhereIsLoggedOnceAndTrainingGoesOn) {
  Spoiled run(way());
  const long calls = run.calls();
  for (long at = 1; at <= calls; at += test::full() ? 1 : 29)
    for (const auto& [action, failures] : kFailures) {
      SCOPED_TRACE(fmt::format("{} at {} of {} calls", action, at, calls));
      EXPECT_EQ(run.run(at, action), 0) << run.log();
      EXPECT_EQ(test::verified_iteration(run.folder()), kEnd) << run.log();
      const std::size_t unsaved = times(run.log(), "was not saved");
      EXPECT_EQ(unsaved + times(run.log(), "warning: "), failures) << run.log();
      if (failures > 0) {
        EXPECT_NE(run.log().find(std::strerror(std::atoi(action.c_str()))), std::string::npos)
            << run.log();
      }
    }
}

// Whenever it is: at start-up, in a step, an evaluation, a save.
TEST_P(Crash, AtAnyInstantLeavesTheLastCommit) {
  const test::TempFolder temp;
  const std::string folder = (temp / "run").string();
  std::mt19937_64 random(GetParam());
  std::int64_t iterations = 40;
  for (int i = 0; i < (test::full() ? 1000 / static_cast<int>(kWays.size()) + 1 : 5); ++i) {
    std::vector<std::string> args = test::tiny_training(folder, iterations, 1);
    args.insert(args.end(), way().flags.begin(), way().flags.end());
    args.insert(args.end(), {"--keep-last", "2"});
    Process process(TESSERA_PROGRAM, args);
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 600));
    process.send(SIGKILL);
    const int code = process.wait();
    SCOPED_TRACE(fmt::format("kill {}", i));
    EXPECT_GE(test::verified_iteration(folder), test::last_saved(process.output()))
        << process.output();
    if (code == 0) iterations += 40;  // it was done: go on
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, Crash, testing::Range<std::size_t>(0, kWays.size()),
                         [](const auto& each) { return std::string(kWays[each.param].name); });

// Whenever a signal comes, the run ends with a checkpoint of where it was, and its own exit code.
TEST(Signal, EndsWithACheckpoint) {
  const std::vector<std::vector<std::string>> ways{
      {}, {"--async-save"}, {"--nproc", "2", "--tensor-model-parallel-size", "2"}};
  const int kSignals[] = {SIGTERM, SIGINT, SIGUSR1, SIGHUP};
  std::mt19937_64 random(5);
  for (int i = 0; i < (test::full() ? 200 : 8); ++i) {
    const test::TempFolder temp;
    const std::string folder = (temp / "run").string();
    std::vector<std::string> args = test::tiny_training(folder, 1'000'000, 4);
    const auto& flags = ways[static_cast<std::size_t>(i) % ways.size()];
    args.insert(args.end(), flags.begin(), flags.end());
    const int signal = kSignals[i / 2 % 4];
    SCOPED_TRACE(fmt::format("signal {} of run {}", signal, i));
    Process process(TESSERA_PROGRAM, args);
    ASSERT_TRUE(process.wait_for_text("parameters in")) << process.output();
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 400'000));
    process.send(signal);
    EXPECT_EQ(process.wait(), 64 + signal) << process.output();
    const std::string before = "the run stops at iteration ";
    const std::size_t found = process.output().find(before);
    ASSERT_NE(found, std::string::npos) << process.output();
    EXPECT_EQ(test::verified_iteration(folder),
              std::atoll(process.output().c_str() + found + before.size()));
    EXPECT_EQ(times(process.output(), "was not saved"), 0u);
  }
}

TEST(Signal, TheSecondStopsAtOnce) {
  const test::TempFolder temp;
  const std::string folder = (temp / "run").string();
  std::vector<std::string> args = test::tiny_training(folder, 1'000'000, 1'000'000);
  Process process(TESSERA_PROGRAM, args, {"IO_SHIM_FOLDER=" + folder});
  ASSERT_TRUE(process.wait_for_text("parameters in")) << process.output();
  process.send(SIGUSR1);
  process.send(SIGTERM);
  const int code = process.wait();
  EXPECT_TRUE(code == 128 + SIGTERM || code == 128 + SIGUSR1) << code << process.output();
}

// As `timeout` sends it: to the process, and to its group.
TEST(Signal, AnEchoIsNoSecondOne) {
  const test::TempFolder temp;
  const std::string folder = (temp / "run").string();
  Process process(TESSERA_PROGRAM, test::tiny_training(folder, 1'000'000, 1'000'000));
  ASSERT_TRUE(process.wait_for_text("parameters in")) << process.output();
  process.send(SIGTERM);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  process.send(SIGTERM);
  EXPECT_EQ(process.wait(), 64 + SIGTERM) << process.output();
  EXPECT_GE(test::verified_iteration(folder), 0);
}

TEST(Signal, WithoutAPlaceToSaveTheProcessEnds) {
  const test::TempFolder temp;
  std::vector<std::string> args = test::tiny_training((temp / "run").string(), 1'000'000, 1);
  args.resize(args.size() - 6);  // no --save-interval, --save and --load
  Process process(TESSERA_PROGRAM, args);
  ASSERT_TRUE(process.wait_for_text("parameters in")) << process.output();
  process.send(SIGTERM);
  EXPECT_EQ(process.wait(), 128 + SIGTERM) << process.output();
}

TEST(JobEnd, StopsTheRunInTime) {
  const test::TempFolder temp;
  const std::string folder = (temp / "run").string();
  const auto soon = std::chrono::system_clock::now() + std::chrono::seconds(4);
  const auto seconds =
      std::chrono::duration_cast<std::chrono::seconds>(soon.time_since_epoch()).count();
  Process process(TESSERA_PROGRAM, test::tiny_training(folder, 1'000'000, 1'000'000),
                  {"SLURM_JOB_END_TIME=" + std::to_string(seconds)});
  EXPECT_EQ(process.wait(), 0) << process.output();
  EXPECT_NE(process.output().find("time is up"), std::string::npos);
  EXPECT_GE(test::verified_iteration(folder), 0);
}

}  // namespace
}  // namespace tessera
