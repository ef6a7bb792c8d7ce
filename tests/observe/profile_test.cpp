// --profile in whole runs: which steps are recorded, and where the trace goes.
#include "tessera/observe/profile.h"

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"
#include "tests/support/saved_tensors.h"
#include "tests/train/trainer_run.h"

namespace tessera {
namespace {

using test::run;

Options profile_options(const fs::path& folder) {
  Options options = test::run_options(folder);
  options.train.save_interval = 1000;
  options.train.eval_iters = 0;
  options.train.profile = true;
  return options;
}

std::vector<std::string> steps_in(const fs::path& file) {
  std::vector<std::string> steps;
  const Json trace = parse_json(read_text_file(file), file.string());
  for (const Json& event : trace["traceEvents"])
    if (event["name"].get<std::string>().starts_with("step ")) steps.push_back(event["name"]);
  return steps;
}

using StepMarks = std::vector<std::string>;

TEST(Profile, RecordsTheTwoStepsAfterTenByDefault) {
  const test::TempFolder temp;
  run(profile_options(temp / "run"));
  EXPECT_EQ(steps_in(temp / "run/profile.json"), StepMarks({"step 11", "step 12"}));
}

TEST(Profile, ChangesNoBit) {
  const test::TempFolder temp;
  Options options = profile_options(temp / "with");
  run(options);
  options.train.profile = false;
  options.train.save = (temp / "without").string();
  run(options);
  EXPECT_FALSE(fs::exists(temp / "without/profile.json"));
  EXPECT_TRUE(test::saved_tensors(temp / "with", 20) == test::saved_tensors(temp / "without", 20));
}

TEST(Profile, TakesItsOwnFileAndSteps) {
  const test::TempFolder temp;
  Options options = profile_options(temp / "run");
  options.train.profile_file = (temp / "deep/trace.json").string();
  options.train.profile_step_start = 0;
  options.train.profile_step_end = 1;
  run(options);
  EXPECT_EQ(steps_in(temp / "deep/trace.json"), StepMarks({"step 1"}));
  EXPECT_FALSE(fs::exists(temp / "run/profile.json"));
}

TEST(Profile, WritesWhatItHasWhenTheRunEnds) {
  const test::TempFolder temp;
  Options options = profile_options(temp / "run");
  options.train.profile_step_start = 18;
  options.train.profile_step_end = 30;
  run(options);
  EXPECT_EQ(steps_in(temp / "run/profile.json"), StepMarks({"step 19", "step 20"}));
}

TEST(Profile, AResumedRunRecordsTheStepsThatAreLeft) {
  const test::TempFolder temp;
  Options options = profile_options(temp / "run");
  options.train.exit_interval = 11;
  run(options);
  EXPECT_EQ(steps_in(temp / "run/profile.json"), StepMarks({"step 11"}));
  options.train.exit_interval = 0;
  options.train.load = options.train.save;
  run(options);
  EXPECT_EQ(steps_in(temp / "run/profile.json"), StepMarks({"step 12"}));
}

TEST(Profile, ShowsEvaluationAndCheckpoints) {
  const test::TempFolder temp;
  Options options = profile_options(temp / "run");
  options.train.eval_iters = 1;
  options.train.eval_interval = 1;
  options.train.save_interval = 1;
  run(options);
  const std::string trace = read_text_file(temp / "run/profile.json");
  for (const char* name : {R"("evaluation")", R"("checkpoint")", R"("report")"})
    EXPECT_NE(trace.find(name), std::string::npos) << name;
}

TEST(Profile, RefusesAFileThatIsNoTraceBeforeAnythingIsWritten) {
  const test::TempFolder temp;
  Options options = profile_options(temp / "run");
  options.train.profile_file = (temp / "notes.txt").string();
  std::ofstream(temp / "notes.txt") << "mine";
  test::expect_input_error([&] { run(options); },
                           {"--profile-file", "something else than a trace"});
  EXPECT_EQ(read_text_file(temp / "notes.txt"), "mine");
  EXPECT_FALSE(fs::exists(temp / "run"));
}

Options two_ranks(const fs::path& folder) {
  Options options = profile_options(folder);
  options.parallel.tensor = options.parallel.nproc = 2;
  options.train.profile_ranks = {0, 1};
  return options;
}

TEST(Profile, RanksWriteFilesOfTheirOwn) {
  const test::TempFolder temp;
  run(two_ranks(temp / "run"));
  for (const char* file : {"run/profile.json", "run/profile.rank1.json"})
    EXPECT_EQ(steps_in(temp / file), StepMarks({"step 11", "step 12"})) << file;
}

// Rank 0, whose own place is good, has written nothing either.
TEST(Profile, EveryRanksPlaceIsCheckedFirst) {
  const test::TempFolder temp;
  Options options = two_ranks(temp / "run");
  options.train.profile_file = (temp / "trace.json").string();
  std::ofstream(temp / "trace.rank1.json") << "mine";
  test::expect_input_error([&] { run(options); },
                           {"--profile-file", "trace.rank1.json", "something else than a trace"});
  EXPECT_EQ(read_text_file(temp / "trace.rank1.json"), "mine");
  EXPECT_FALSE(fs::exists(temp / "run"));
  options.train.profile_ranks = {0};
  run(options);
  EXPECT_EQ(read_text_file(temp / "trace.rank1.json"), "mine") << "a rank that does not record";
}

TEST(Profile, ThreadsThatShareAGpuAreRecordedOneAtATime) {
  TrainOptions options;
  options.profile = true;
  options.device = DeviceChoice::cuda;
  options.profile_ranks = {0, 1};
  Rank rank;
  rank.size = 2;
  check_profiled_ranks(options, rank);
  rank.process_ranks = 2;
  test::expect_input_error([&] { check_profiled_ranks(options, rank); },
                           {"--profile-ranks", "threads of one process", "--launch processes"});
  options.profile_ranks = {1};
  check_profiled_ranks(options, rank);
  options.profile_ranks = {0, 1};
  options.device = DeviceChoice::cpu;
  check_profiled_ranks(options, rank);
}

TEST(Profile, SaysWhenItWillRecordNothing) {
  Trace trace{Device{}};
  TrainOptions options;
  options.profile = true;
  const StepProfile profile(trace, options, 0);
  EXPECT_EQ(profile.why_never(options, 0), "");
  EXPECT_EQ(profile.why_never(options, 11), "");
  EXPECT_NE(profile.why_never(options, 12).find("--profile-step-end 12"), std::string::npos);
  options.exit_interval = 10;
  EXPECT_NE(profile.why_never(options, 0).find("--exit-interval 10"), std::string::npos);
  EXPECT_EQ(profile.why_never(options, 10), "") << "this run goes on to iteration 20";
  options.exit_interval = 11;
  EXPECT_EQ(profile.why_never(options, 0), "");
}

TEST(Profile, FileIsInTheSaveFolderIfThereIsOne) {
  TrainOptions options;
  EXPECT_EQ(profile_file(options), "");
  options.profile = true;
  EXPECT_EQ(profile_file(options), "profile.json");
  options.save = "ckpt";
  EXPECT_EQ(profile_file(options), "ckpt/profile.json");
  options.profile_file = "trace.json";
  EXPECT_EQ(profile_file(options), "trace.json");
}

}  // namespace
}  // namespace tessera
