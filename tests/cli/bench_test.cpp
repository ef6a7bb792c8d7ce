// The flags of tessera bench, which are spelt as train spells them, and what it knows of GPUs.
#include <gtest/gtest.h>

#include "bench/peak.h"
#include "bench/program.h"
#include "tests/support/expect_error.h"
#include "tests/support/run_program.h"

namespace tessera {
namespace {

using bench::Flags;
using bench::peak_tflops_of;

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
  EXPECT_EQ(peak_tflops_of("NVIDIA A100-SXM4-80GB"), 312);
  EXPECT_EQ(peak_tflops_of("NVIDIA H100 80GB HBM3"), 989);
  EXPECT_EQ(peak_tflops_of("NVIDIA H100 PCIe"), 756);
  EXPECT_EQ(peak_tflops_of("NVIDIA H200"), 989);
  EXPECT_EQ(peak_tflops_of("NVIDIA B200"), 2250);
  for (const char* other : {"NVIDIA GH200 480GB", "NVIDIA GB200", "NVIDIA H100 NVL",
                            "NVIDIA H100 80GB HBM3 MIG 1g.10gb", "NVIDIA L4", ""})
    EXPECT_EQ(peak_tflops_of(other), 0) << other;
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
  for (const char* flag : {"--micro-batch-size 4", "--params-dtype", "--bf16", "--fp16",
                           "--deterministic-mode", "refused on a CPU"})
    EXPECT_NE(help.out.find(flag), std::string::npos) << help.out;
}

TEST_F(Bench, RefusesBeforeItWorks) {
  expect_refused({"bench", "train", "--bf16", "--params-dtype", "f32"}, "exclude each other");
  expect_refused({"bench", "train", "--params-dtype", "f8"}, "f64, f32, bf16 or f16, got 'f8'");
  expect_refused({"bench", "train", "--deterministic-mode"},
                 "belongs to --device cuda (on a CPU every run repeats its bits)");
  if (cuda_device_count() == 0)
    expect_refused({"bench", "train", "--device", "cuda", "--bf16"}, "use --device cpu");
  expect_refused({"bench", "train", "--threads", "100000"}, "--threads must be a whole number");
  expect_refused({"bench", "train", "--config", "nanogpt"}, "there are: gpt2-1.5b");
  expect_refused({"bench", "communication", "--zzz"},
                 "unknown flag '--zzz': tessera bench communication takes no flags");
}

}  // namespace
}  // namespace tessera
