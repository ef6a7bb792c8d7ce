// Results never depend on how many threads an op may use, nor on what other ranks do meanwhile.
#include <gtest/gtest.h>

#include <filesystem>
#include <thread>
#include <vector>

#include "tests/support/kernel_test.h"
#include "tests/support/op_runs.h"

namespace tessera::test {
namespace {

class ThreadsTest : public KernelTest {};

TEST_P(ThreadsTest, AnyNumberOfThreadsGivesTheSameBits) {
  Lab one(stream.device(), 1);
  for (const NamedOp& op : kEveryOp) {
    OpRun expected(one, dtype());
    op.run(expected);
    for (const int threads : {2, 3, 5}) {
      Lab several(stream.device(), threads);
      OpRun got(several, dtype());
      op.run(got);
      EXPECT_TRUE(got.results == expected.results) << op.name << " on " << threads << " threads";
    }
  }
}

// Ranks are threads of one process, and libraries below must bear several callers at once.
TEST_P(ThreadsTest, RanksBesideEachOtherGiveTheSameBits) {
  constexpr int kRanks = 4;
  constexpr int kRounds = 5;
  const auto work = [&](Bytes& bytes) {
    Lab own(stream.device(), 1);
    OpRun run(own, dtype());
    run_gemm(run);
    run_attention(run);
    bytes = run.results;
  };
  Bytes expected;
  work(expected);
  for (int round = 0; round < kRounds; ++round) {
    std::vector<Bytes> got(kRanks);
    std::vector<std::thread> ranks;
    for (Bytes& each : got) ranks.emplace_back([&] { work(each); });
    for (std::thread& rank : ranks) rank.join();
    for (const Bytes& each : got) ASSERT_TRUE(each == expected);
  }
}

TESSERA_KERNEL_SUITE(ThreadsTest);

// A hundred ranks on a hundred cores must not become ten thousand threads.
TEST(CpuThreads, AnOpWithOneThreadStartsNoOthers) {
  const auto threads = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/task"),
                         std::filesystem::directory_iterator());
  };
  std::thread rank([&] {  // a fresh thread has no team waiting from earlier work
    const auto before = threads();
    Lab lab(Device{}, 1);
    for (const DType type : {DType::f64, DType::f32, DType::bf16}) {
      OpRun run(lab, type);
      for (const NamedOp& op : kEveryOp) op.run(run);
    }
    EXPECT_EQ(threads(), before);
  });
  rank.join();
}

}  // namespace
}  // namespace tessera::test
