// Several ranks as a user starts them: the loss is one rank's, verify says so, and a rank that dies
// or stands still ends the others with its name.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <fstream>
#include <thread>

#include "tessera/base/json.h"
#include "tests/support/run_program.h"
#include "tests/support/saved_tensors.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

std::vector<std::string> training(const std::string& command, const std::string& iterations,
                                  const std::vector<std::string>& more) {
  std::vector<std::string> args{command,
                                "--mock-data",
                                "--tokenizer-type",
                                "NullTokenizer",
                                "--vocab-size",
                                "100",
                                "--num-layers",
                                "2",
                                "--hidden-size",
                                "32",
                                "--num-attention-heads",
                                "4",
                                "--seq-length",
                                "16",
                                "--max-position-embeddings",
                                "16",
                                "--micro-batch-size",
                                "2",
                                "--lr",
                                "1e-2",
                                "--eval-iters",
                                "0",
                                "--log-interval",
                                "5",
                                "--threads",
                                "1",
                                "--train-iters",
                                iterations};
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

// Open MPI leaves memory behind at its end, which a build with the address sanitizer would report.
void expect_no_leak_reports() { ::setenv("ASAN_OPTIONS", "detect_leaks=0", 1); }

class Ranks : public testing::Test {
 protected:
  Ranks() { expect_no_leak_reports(); }
  test::ProgramResult run(const std::vector<std::string>& args) {
    return test::run_program(TESSERA_PROGRAM, args, temp_.path());
  }
  // The mean loss of the last five of ten steps, from the log.
  double loss_of(const std::vector<std::string>& more) {
    const test::ProgramResult result = run(training("train", "10", more));
    EXPECT_EQ(result.exit_code, 0) << result.error;
    const std::string before = "lm loss: ";
    const std::size_t line = result.error.find(" 10/");
    const std::size_t found = result.error.find(before, line);
    EXPECT_NE(found, std::string::npos) << result.error;
    return found == std::string::npos ? -1 : std::stod(result.error.substr(found + before.size()));
  }
  test::TempFolder temp_;
};

TEST_F(Ranks, AsThreadsAndAsProcessesTrainAsOneDoes) {
  const double one = loss_of({});
  const std::vector<std::string> two{"--nproc", "2", "--tensor-model-parallel-size", "2"};
  EXPECT_NEAR(loss_of(two), one, 1e-5 * one);
  std::vector<std::string> processes = two;
  processes.insert(processes.end(), {"--launch", "processes", "--sequence-parallel"});
  EXPECT_NEAR(loss_of(processes), one, 1e-5 * one);
  EXPECT_NEAR(loss_of({"--nproc", "4", "--tensor-model-parallel-grid", "2,2"}), one, 1e-5 * one);
}

TEST_F(Ranks, VerifyNeedsNoRanks) {
  const test::ProgramResult result =
      run(training("verify", "10", {"--tensor-model-parallel-size", "4", "--sequence-parallel"}));
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_NE(result.out.find("same: the layout computes what one rank does"), std::string::npos)
      << result.out;
}

TEST_F(Ranks, VerifyPipelines) {
  for (const std::vector<std::string>& schedule : std::vector<std::vector<std::string>>{
           {"--num-virtual-stages-per-pipeline-rank", "2"}, {"--pipeline-schedule", "zb-v"}}) {
    std::vector<std::string> more{"--pipeline-model-parallel-size",
                                  "2",
                                  "--nproc",
                                  "8",
                                  "--tensor-model-parallel-size",
                                  "2",
                                  "--num-layers",
                                  "4",
                                  "--global-batch-size",
                                  "16"};
    more.insert(more.end(), schedule.begin(), schedule.end());
    std::vector<std::string> args = training("verify", "10", more);
    args.erase(std::find(args.begin(), args.end(), "--num-layers"),
               std::find(args.begin(), args.end(), "--num-layers") + 2);
    const test::ProgramResult result = run(args);
    EXPECT_EQ(result.exit_code, 0) << result.error;
    EXPECT_NE(result.out.find("same: the layout computes what one rank does"), std::string::npos)
        << result.out << result.error;
  }
}

// A training, its model used by one rank and by a pipeline of pairs, and a picture of both.
TEST_F(Ranks, PipelinesTrainEvaluateWriteAndAreDrawn) {
  const std::vector<std::string> layout{"--pipeline-model-parallel-size",
                                        "2",
                                        "--tensor-model-parallel-size",
                                        "2",
                                        "--global-batch-size",
                                        "8"};
  std::vector<std::string> more = layout;
  more.insert(more.end(), {"--nproc", "4", "--save", "run", "--save-interval", "10", "--profile",
                           "--profile-step-start", "4", "--profile-step-end", "6",
                           "--profile-ranks", "0", "2", "--profile-file", "trace.json"});
  ASSERT_EQ(run(training("train", "10", more)).exit_code, 0);
  const auto with = [](std::vector<std::string> args, const std::vector<std::string>& ranks) {
    args.insert(args.end(), ranks.begin(), ranks.end());
    return args;
  };
  const std::vector<std::string> four{
      "--pipeline-model-parallel-size", "2", "--tensor-model-parallel-size", "2", "--nproc", "4"};
  const std::vector<std::string> text{
      "generate", "--load", "run", "--prompt", "7 8 9", "--threads", "1", "--max-new-tokens", "6"};
  const test::ProgramResult one = run(text);
  EXPECT_EQ(one.exit_code, 0) << one.error;
  EXPECT_EQ(run(with(text, four)).out, one.out);
  const std::vector<std::string> loss{"evaluate",     "--load", "run",       "--mock-data",
                                      "--eval-iters", "3",      "--threads", "1"};
  const double want = parse_json(run(loss).out, "evaluate")["loss"];
  const std::vector<std::string> cached = with(four, {"--data-cache-path", "cache"});
  const double got = parse_json(run(with(loss, cached)).out, "evaluate")["loss"];
  EXPECT_NEAR(got, want, 1e-5 * want);
  EXPECT_EQ(std::distance(fs::directory_iterator(temp_ / "cache"), fs::directory_iterator()), 4)
      << "arrays of one set";
  std::vector<std::string> draw = training("inspect", "10", layout);
  draw.insert(draw.end(), {"--nproc", "4", "--schedule", "--schedule-file", "plan.svg"});
  const test::ProgramResult plan = run(draw);
  EXPECT_NE(plan.out.find("rank 0   F0 F1 ......B0    F2 B1    F3 B2    ...B3"), std::string::npos)
      << plan.out << plan.error;
  EXPECT_NE(plan.out.find("in microbatches of a stage: 2 1\n"), std::string::npos) << plan.out;
  EXPECT_NE(plan.out.find("that a rank has room for: 4 3\n"), std::string::npos) << plan.out;
  EXPECT_NE(read_text_file(temp_ / "plan.svg").find("<svg"), std::string::npos);
  draw.insert(draw.end(), {"--trace", "trace.json"});
  const test::ProgramResult recorded = run(draw);
  EXPECT_NE(recorded.out.find("4 microbatches, recorded"), std::string::npos)
      << recorded.out << recorded.error;
  EXPECT_NE(recorded.out.find("planned for equal times: 25.00 %"), std::string::npos);
}

// Of one batch at a time there is no group of microbatches to fill.
TEST_F(Ranks, OfSeveralStagesEachEvaluateAndWrite) {
  ASSERT_EQ(run(training("train", "2", {"--save", "run", "--save-interval", "2"})).exit_code, 0);
  const auto with = [](std::vector<std::string> args, const std::vector<std::string>& more) {
    args.insert(args.end(), more.begin(), more.end());
    return args;
  };
  const std::vector<std::string> two{"--pipeline-model-parallel-size", "2", "--nproc", "2"};
  const std::vector<std::string> stages =
      with(two, {"--pipeline-model-parallel-layout", "E|t|t|L"});
  const std::vector<std::string> text{
      "generate", "--load", "run", "--prompt", "7 8 9", "--threads", "1", "--max-new-tokens", "6"};
  EXPECT_EQ(run(with(text, stages)).out, run(text).out);
  const std::vector<std::string> loss{"evaluate",     "--load", "run",       "--mock-data",
                                      "--eval-iters", "2",      "--threads", "1"};
  const double want = parse_json(run(loss).out, "evaluate")["loss"];
  const double got = parse_json(run(with(loss, stages)).out, "evaluate")["loss"];
  EXPECT_NEAR(got, want, 1e-5 * want);
  const test::ProgramResult plan = run(with({"inspect", "--load", "run"}, stages));
  EXPECT_EQ(plan.exit_code, 0) << plan.error;
  EXPECT_NE(plan.out.find("each pipeline rank (cpu, f32, 4 microbatches"), std::string::npos)
      << plan.out;
  const test::ProgramResult many =
      run(with({"generate", "--load", "run", "--prompt", "7 8 9", "--max-new-tokens", "14"}, two));
  EXPECT_EQ(many.exit_code, 2);
  EXPECT_EQ(
      many.error,
      "tessera: a prompt of 3 tokens and --max-new-tokens 14 exceed the model's 16 positions: "
      "shorten one of them\n")
      << "before a rank starts";
}

// Over a pipeline, sums come in the same order whoever the ranks are.
TEST_F(Ranks, ProcessesAndThreadsPassActivationsWithEqualBits) {
  std::vector<std::string> threads = training(
      "train", "10",
      {"--tensor-model-parallel-size", "2", "--pipeline-model-parallel-size", "2",
       "--pipeline-schedule", "zb-h1", "--global-batch-size", "8", "--save-interval", "10"});
  std::vector<std::string> command{"mpirun",          "-n",           "4", "--allow-run-as-root",
                                   "--oversubscribe", TESSERA_PROGRAM};
  command.insert(command.end(), threads.begin(), threads.end());
  command.insert(command.end(), {"--save", "processes"});
  threads.insert(threads.end(), {"--nproc", "4", "--save", "threads"});
  ASSERT_EQ(run(threads).exit_code, 0);
  const test::ProgramResult second = test::run_program("/usr/bin/env", command, temp_.path());
  ASSERT_EQ(second.exit_code, 0) << second.error;
  EXPECT_TRUE(test::saved_tensors(temp_ / "threads", 10) ==
              test::saved_tensors(temp_ / "processes", 10));
}

TEST_F(Ranks, VerifyNeedsNoRateLengthOrData) {
  const test::ProgramResult result =
      run({"verify", "--num-layers", "2", "--hidden-size", "32", "--num-attention-heads", "4",
           "--seq-length", "16", "--micro-batch-size", "2", "--tensor-model-parallel-size", "2",
           "--min-lr", "0.5", "--lr-warmup-iters", "50"});
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_NE(result.out.find("same: the layout"), std::string::npos) << result.out;
}

TEST_F(Ranks, AreNamedByTheBanner) {
  const std::vector<std::string> two{"--nproc", "2", "--tensor-model-parallel-size", "2"};
  const test::ProgramResult threads = run(training("train", "1", two));
  EXPECT_NE(threads.error.find("2 ranks (threads, shared memory), 1 thread(s) per rank"),
            std::string::npos)
      << threads.error;
  std::vector<std::string> more = two;
  more.insert(more.end(), {"--launch", "processes"});
  const test::ProgramResult processes = run(training("train", "1", more));
  EXPECT_NE(processes.error.find("2 ranks (processes, MPI), 1 thread(s) per rank"),
            std::string::npos)
      << processes.error;
}

// Tensor-parallel pairs, data-parallel between them: threads and processes sum in the same order.
TEST_F(Ranks, ProcessesAndThreadsShareDataWithEqualBits) {
  const std::vector<std::string> layout{"--tensor-model-parallel-size",
                                        "2",
                                        "--sequence-parallel",
                                        "--global-batch-size",
                                        "8",
                                        "--save-interval",
                                        "10",
                                        "--overlap-grad-reduce"};
  const std::vector<std::vector<std::string>> strategies{
      {},
      {"--use-distributed-optimizer", "--overlap-param-gather"},
      {"--use-megatron-fsdp", "--data-parallel-sharding-strategy", "optim_grads_params"}};
  for (const std::vector<std::string>& strategy : strategies) {
    std::vector<std::string> more = layout;
    more.insert(more.end(), strategy.begin(), strategy.end());
    std::vector<std::string> threads = training("train", "10", more);
    std::vector<std::string> processes = threads;
    threads.insert(threads.end(), {"--nproc", "4", "--save", "threads"});
    processes.insert(processes.end(), {"--save", "processes"});
    const test::ProgramResult first = run(threads);
    ASSERT_EQ(first.exit_code, 0) << first.error;
    std::vector<std::string> command{"mpirun",          "-n",           "4", "--allow-run-as-root",
                                     "--oversubscribe", TESSERA_PROGRAM};
    command.insert(command.end(), processes.begin(), processes.end());
    const test::ProgramResult second = test::run_program("/usr/bin/env", command, temp_.path());
    ASSERT_EQ(second.exit_code, 0) << second.error;
    EXPECT_TRUE(test::saved_tensors(temp_ / "threads", 10) ==
                test::saved_tensors(temp_ / "processes", 10));
    fs::remove_all(temp_ / "threads");
    fs::remove_all(temp_ / "processes");
  }
}

// The configuration that a checkpoint holds says how its ranks were started; a launcher does it in
// another way.
TEST_F(Ranks, GoOnUnderALauncherWithTheConfigurationOfARunWithout) {
  const test::ProgramResult first = run(training("train", "1",
                                                 {"--nproc", "4", "--tensor-model-parallel-size",
                                                  "4", "--save", "run", "--save-interval", "1"}));
  ASSERT_EQ(first.exit_code, 0) << first.error;
  const std::string config = "run/iter_0000001/config.yaml";
  EXPECT_NE(read_text_file(temp_ / config).find("\nnproc: 4\n"), std::string::npos);
  const test::ProgramResult second = test::run_program(
      "/usr/bin/env",
      {"mpirun", "-n", "2", "--allow-run-as-root", "--oversubscribe", TESSERA_PROGRAM, "train",
       "--config", config, "--tensor-model-parallel-size", "2", "--load", "run", "--train-iters",
       "2"},
      temp_.path());
  EXPECT_EQ(second.exit_code, 0) << second.error;
  EXPECT_NE(second.error.find("2 ranks (mpirun, MPI)"), std::string::npos) << second.error;
  EXPECT_EQ(read_text_file(temp_ / "run/latest_checkpointed_iteration.txt"), "2\n");
}

// The process that is rank `rank` of a job that wrote this variable's value; 0 when none is.
pid_t process_of_rank(int rank, const std::string& mark) {
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream file(entry.path() / "environ", std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    const std::string all = std::string(1, '\0') + text;
    const auto has = [&](const std::string& variable) {
      return all.find(std::string(1, '\0') + variable + std::string(1, '\0')) != std::string::npos;
    };
    if (has("OMPI_COMM_WORLD_RANK=" + std::to_string(rank)) && has("TESSERA_TEST_MARK=" + mark))
      return std::stoi(name);
  }
  return 0;
}

// Starts a long job of processes, sends `signal` to rank 2 once it trains, and gives the job's end.
test::ProgramResult job_with(int signal, const fs::path& folder, double& seconds) {
  const std::string mark = folder.filename().string();
  expect_no_leak_reports();
  ::setenv("TESSERA_TEST_MARK", mark.c_str(), 1);
  std::thread sender([&] {
    pid_t rank = 0;
    // Checkpoints tell that it trains.
    while (!fs::exists(folder / "run" / "iter_0000010"))
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    rank = process_of_rank(2, mark);
    ASSERT_NE(rank, 0);
    const auto start = Clock::now();
    ::kill(rank, signal);
    seconds = -std::chrono::duration<double>(start.time_since_epoch()).count();
  });
  test::ProgramResult result = test::run_program(
      TESSERA_PROGRAM,
      training("train", "1000000",
               {"--nproc", "4", "--launch", "processes", "--tensor-model-parallel-size", "4",
                "--save", "run", "--save-interval", "10", "--no-save-optim"}),
      folder);
  const auto end = Clock::now();
  sender.join();  // which has written `seconds`
  seconds += std::chrono::duration<double>(end.time_since_epoch()).count();
  return result;
}

class LostRank : public testing::TestWithParam<int> {};

TEST_P(LostRank, EndsTheOthersWithItsName) {
  const test::TempFolder temp;
  double seconds = 0;
  const test::ProgramResult result = job_with(GetParam(), temp.path(), seconds);
  EXPECT_NE(result.exit_code, 0);
  EXPECT_NE(result.error.find("rank 2"), std::string::npos) << result.error;
  EXPECT_LT(seconds, 300) << "a call may wait ten minutes for a silent rank";
  EXPECT_EQ(process_of_rank(0, temp.path().filename().string()), 0) << "a rank was left behind";
}

INSTANTIATE_TEST_SUITE_P(Signals, LostRank, testing::Values(SIGKILL, SIGSTOP));

}  // namespace
}  // namespace tessera
