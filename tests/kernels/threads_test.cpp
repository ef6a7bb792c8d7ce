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
  constexpr int kRounds = 100;
  const Input a = random({150, 90});
  const Input b = random({90, 140});
  const auto product = [&](Lab& own, const Tensor& d) {
    own->gemm(own.stream, d, View(a), View(b), {});
    return own.bytes(d);
  };
  const Bytes expected = product(lab, empty({150, 140}));
  std::vector<std::thread> ranks;
  std::vector<int> wrong(kRanks, 0);
  for (int& count : wrong)
    ranks.emplace_back([&] {
      Lab own(stream.device(), 1);
      const Tensor d = own.empty(dtype(), {150, 140});
      for (int round = 0; round < kRounds; ++round) count += product(own, d) != expected;
    });
  for (std::thread& rank : ranks) rank.join();
  EXPECT_EQ(wrong, std::vector<int>(kRanks, 0)) << "of " << kRounds << " products";
}

// Products large enough to be cut into tiles, with sizes that leave a rest everywhere.
TEST_P(ThreadsTest, TilesOfAProductDoNotShowInIt) {
  constexpr std::int64_t m = 331, n = 517, k = 603;
  for (const bool transpose_a : {false, true})
    for (const bool transpose_b : {false, true})
      for (const bool accumulate : {false, true}) {
        const Input a = random(transpose_a ? Shape{k, m} : Shape{m, k});
        const Input b = random(transpose_b ? Shape{n, k} : Shape{k, n});
        const GemmSpec spec{
            .transpose_a = transpose_a, .transpose_b = transpose_b, .accumulate = accumulate};
        const auto product = [&](int threads) {
          Lab several(stream.device(), threads);
          const Tensor d = several.full(dtype(), {m, n}, 0.25);
          several->gemm(several.stream, d, View(a), View(b), spec);
          return several.bytes(d);
        };
        const Bytes expected = product(1);
        for (const int threads : {2, 3, 4, 5, 12})
          EXPECT_TRUE(product(threads) == expected)
              << threads << " threads, op " << transpose_a << transpose_b << accumulate;
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
