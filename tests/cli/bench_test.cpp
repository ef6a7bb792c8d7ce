// The flags of tessera bench, which are spelt as train spells them, its data-parallel ranks, and
// what it knows of GPUs.
#include <gtest/gtest.h>

#include "bench/data_parallel.h"
#include "bench/layer_traffic.h"
#include "bench/peak.h"
#include "bench/program.h"
#include "bench/train_bench.h"
#include "tests/support/expect_error.h"
#include "tests/support/run_program.h"

namespace tessera {
namespace {

using bench::find_peak_tflops;
using bench::Flags;

const std::vector<bench::FlagInfo> kKnown{{"steps", "30", "how many"}, {"bf16", "false", "type"}};

TEST(BenchFlags, TakeValuesAndSwitchesAsTrainDoes) {
  const Flags given({"--bf16", "--steps", "7"}, kKnown);
  EXPECT_TRUE(given.on("bf16"));
  EXPECT_EQ(given.number("steps", 100), 7);
  const Flags other({"--steps=8", "--bf16=false"}, kKnown);
  EXPECT_FALSE(other.on("bf16"));
  EXPECT_EQ(other.number("steps", 100), 8);
  const Flags none({}, kKnown);
  EXPECT_FALSE(none.on("bf16"));
  EXPECT_EQ(none.number("steps", 100), 30);
  EXPECT_NE(Flags({"--help"}, kKnown).list().find("--steps 30"), std::string::npos);
}

TEST(BenchFlags, RefuseWhatTheyDoNotKnow) {
  const auto refuse = [](const std::vector<std::string>& args, const char* part) {
    test::expect_input_error([&] { Flags(args, kKnown); }, {part});
  };
  refuse({"--zzz", "1"},
         "unknown flag '--zzz'; the flags, with their defaults, are:\n  --steps 30");
  refuse({"steps", "1"}, "unknown flag 'steps'");
  refuse({"--steps"}, "--steps needs a value");
  refuse({"--bf16", "yes"}, "unknown flag 'yes'");
  refuse({"--bf16=yes"}, "--bf16 is on or off");
}

TEST(BenchPeak, IsKnownByTheWholeName) {
  EXPECT_EQ(find_peak_tflops("NVIDIA A100-SXM4-80GB"), 312);
  EXPECT_EQ(find_peak_tflops("NVIDIA H100 80GB HBM3"), 989);
  EXPECT_EQ(find_peak_tflops("NVIDIA H100 PCIe"), 756);
  EXPECT_EQ(find_peak_tflops("NVIDIA H200"), 989);
  EXPECT_EQ(find_peak_tflops("NVIDIA B200"), 2250);
  for (const char* other : {"NVIDIA GH200 480GB", "NVIDIA GB200", "NVIDIA H100 NVL",
                            "NVIDIA H100 80GB HBM3 MIG 1g.10gb", "NVIDIA L4", ""})
    EXPECT_EQ(find_peak_tflops(other), 0) << other;
}

ParallelOptions parallel_of(const std::vector<std::string>& args) {
  return bench::data_parallel_options(Flags(args, bench::data_parallel_flags()));
}

TEST(BenchFlags, SayWhatRanksShareAsTrainDoes) {
  EXPECT_EQ(parallel_of({}).sharding, Sharding::none);
  EXPECT_EQ(parallel_of({"--nproc", "4"}).data, 4);
  EXPECT_EQ(parallel_of({"--use-distributed-optimizer"}).sharding, Sharding::optimizer);
  EXPECT_EQ(parallel_of({"--use-megatron-fsdp"}).sharding, Sharding::parameters);
  const auto with = [](const char* strategy) {
    return parallel_of({"--use-megatron-fsdp", "--data-parallel-sharding-strategy", strategy});
  };
  EXPECT_EQ(with("no_shard").sharding, Sharding::none);
  EXPECT_EQ(with("optim").sharding, Sharding::optimizer);
  EXPECT_EQ(with("optim_grads").sharding, Sharding::gradients);
  EXPECT_EQ(with("optim_grads_params").sharding, Sharding::parameters);
  EXPECT_TRUE(parallel_of({"--overlap-grad-reduce"}).overlap_grad_reduce);
  EXPECT_TRUE(parallel_of({"--use-megatron-fsdp", "--overlap-param-gather"}).overlap_param_gather);
}

TEST(BenchFlags, RefuseSharingWithoutEffect) {
  const auto refuse = [](const std::vector<std::string>& args, const char* part) {
    test::expect_input_error([&] { parallel_of(args); }, {part});
  };
  refuse({"--nproc", "0"}, "--nproc must be a whole number from 1");
  refuse({"--overlap-param-gather"}, "no effect without --use-distributed-optimizer or");
  refuse({"--data-parallel-sharding-strategy", "optim"}, "no effect without --use-megatron-fsdp");
  refuse({"--use-megatron-fsdp", "--data-parallel-sharding-strategy", "zero"}, "got 'zero'");
}

struct BenchRun {
  double loss = 0;
  double tokens = 0;
  std::vector<bench::StepTimes> times;  // as each rank was told
};

// Three steps in f64 of four samples, shared by the ranks.
BenchRun three_steps(int ranks, const bench::TrainBenchOptions& options) {
  BenchRun result;
  result.times.resize(static_cast<std::size_t>(ranks));
  run_ranks(ranks, 1, [&](Rank& rank) {
    bench::TrainBench bench(bench::workload("llama-tiny", 4 / ranks), options, rank);
    result.times[static_cast<std::size_t>(rank.rank)] = bench.run(3);
    if (rank.rank > 0) return;
    result.loss = bench.loss();
    result.tokens = bench.tokens_per_step();
  });
  return result;
}

TEST(BenchRanks, DoTogetherWhatOneDoes) {
  const BenchRun one = three_steps(1, {DType::f64});
  EXPECT_EQ(one.times[0].step.size(), 3U);
  EXPECT_TRUE(one.times[0].exposed.empty());
  for (const Sharding sharding :
       {Sharding::none, Sharding::optimizer, Sharding::gradients, Sharding::parameters}) {
    bench::TrainBenchOptions options{DType::f64};
    options.parallel.sharding = sharding;
    const BenchRun two = three_steps(2, options);
    EXPECT_NEAR(two.loss, one.loss, 1e-11 * one.loss);
    EXPECT_EQ(two.tokens, one.tokens);
    EXPECT_EQ(two.times[0].step, two.times[1].step);
    EXPECT_EQ(two.times[0].exposed, two.times[1].exposed);
    ASSERT_EQ(two.times[0].exposed.size(), 3U);
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_GT(two.times[0].exposed[i], 0);
      EXPECT_LT(two.times[0].exposed[i], two.times[0].step[i]);
    }
  }
}

class Bench : public testing::Test {
 protected:
  test::ProgramResult run(const std::vector<std::string>& args) {
    return test::run_program(TESSERA_PROGRAM, args, temp_.path());
  }
  void expect_refused(const std::vector<std::string>& args, const std::string& part) {
    const test::ProgramResult result = run(args);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_EQ(result.out, "");
    EXPECT_NE(result.error.find(part), std::string::npos) << result.error;
  }
  test::TempFolder temp_;
};

TEST_F(Bench, SpellsItsFlagsAsTrainDoes) {
  const test::ProgramResult help = run({"bench", "train", "--help"});
  EXPECT_EQ(help.exit_code, 0) << help.error;
  for (const char* flag :
       {"--micro-batch-size 4", "--params-dtype", "--bf16", "--fp16", "--deterministic-mode",
        "refused on a CPU", "--nproc 1", "--data-parallel-sharding-strategy"})
    EXPECT_NE(help.out.find(flag), std::string::npos) << help.out;
}

TEST_F(Bench, TellsWhatCommunicationTakesOfSeveralRanks) {
  const std::vector<std::string> args{"bench", "train",     "--config", "llama-tiny", "--threads",
                                      "2",     "--warm-up", "1",        "--steps",    "2"};
  const test::ProgramResult one = run(args);
  EXPECT_EQ(one.exit_code, 0) << one.error;
  EXPECT_NE(one.out.find("llama-tiny, 4 x 64 tokens, f32, cpu\n"), std::string::npos) << one.out;
  EXPECT_EQ(one.out.find("communication"), std::string::npos) << one.out;
  std::vector<std::string> more = args;
  more.insert(more.end(), {"--nproc", "2", "--use-distributed-optimizer"});
  const test::ProgramResult two = run(more);
  EXPECT_EQ(two.exit_code, 0) << two.error;
  for (const char* part :
       {"llama-tiny, 8 x 64 tokens, f32, cpu, 2 ranks of 1 thread(s), optim sharded",
        "\nexposed communication  ", " of rank 0\n"})
    EXPECT_NE(two.out.find(part), std::string::npos) << two.out;
}

TEST(BenchCommunication, CountsWhatTheFormulasSay) {
  for (const CpCommType kind :
       {CpCommType::p2p, CpCommType::all_gather, CpCommType::a2a, CpCommType::a2a_p2p}) {
    const bench::LayerTraffic traffic = bench::context_parallel(kind, 4, 4, 64, 32, 1);
    EXPECT_GT(traffic.formula, 0);
    EXPECT_DOUBLE_EQ(traffic.counted, traffic.formula) << to_string(kind);
  }
}

TEST_F(Bench, RefusesBeforeItWorks) {
  expect_refused({"bench", "train", "--bf16", "--params-dtype", "f32"}, "exclude each other");
  expect_refused({"bench", "train", "--params-dtype", "f8"}, "f64, f32, bf16 or f16, got 'f8'");
  expect_refused({"bench", "train", "--deterministic-mode"},
                 "belongs to --device cuda (results on a CPU are always reproducible)");
  if (cuda_device_count() == 0)
    expect_refused({"bench", "train", "--device", "cuda", "--bf16"}, "use --device cpu");
  expect_refused({"bench", "train", "--threads", "100000"}, "--threads must be a whole number");
  expect_refused({"bench", "train", "--overlap-param-gather"}, "has no effect without");
  expect_refused({"bench", "train", "--config", "nanogpt"}, "there are: gpt2-1.5b");
  expect_refused({"bench", "communication", "--zzz"},
                 "unknown flag '--zzz': tessera bench communication takes no flags");
}

}  // namespace
}  // namespace tessera
