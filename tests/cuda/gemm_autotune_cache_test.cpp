// The file of chosen algorithms: what it keeps, what it survives, and that products go by it.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "tessera/kernels/cuda/gemm/gemm_autotune_cache.h"
#include "tests/cuda/on_gpu.h"
#include "tests/support/temp_folder.h"
#include "tests/support/values.h"

namespace tessera::test {
namespace {

using cuda::GemmAlgorithm;
using cuda::GemmAutotuneCache;

constexpr GemmAlgorithm kOne{1, 2, 3, 0xffffffffffffffff, 5, 6, 7, 0x123456789abcdef};
constexpr GemmAlgorithm kTwo{9, 8};

void put(const fs::path& file, const std::string& text) { std::ofstream(file) << text; }

std::vector<std::string> lines_of(const fs::path& file) {
  std::vector<std::string> lines;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);)
    if (!line.empty() && line[0] != '#') lines.push_back(line);
  return lines;
}

TEST(GemmAutotuneCacheTest, AreReadBack) {
  const TempFolder folder;
  const fs::path file = folder / "not/yet/there/gemms.txt";
  GemmAutotuneCache first(file, "device\tlibrary");
  first.store("a", kOne);
  first.store("b", kOne);
  first.store("b", kTwo);
  for (const GemmAutotuneCache& each : {first, GemmAutotuneCache(file, "device\tlibrary")}) {
    EXPECT_EQ(each.find("a"), kOne);
    EXPECT_EQ(each.find("b"), kTwo);
    EXPECT_FALSE(each.find("c"));
  }
}

TEST(GemmAutotuneCacheTest, WithoutANameNothingIsWritten) {
  GemmAutotuneCache cache({}, "device");
  cache.store("a", kOne);
  EXPECT_EQ(cache.find("a"), kOne);
}

TEST(GemmAutotuneCacheTest, WritersDoNotLoseEachOthersAlgorithms) {
  const TempFolder folder;
  const fs::path file = folder / "gemms.txt";
  GemmAutotuneCache one(file, "device 1");
  GemmAutotuneCache other(file, "device 2");
  GemmAutotuneCache same(file, "device 1");
  one.store("a", kOne);
  other.store("a", kTwo);
  same.store("b", kTwo);
  EXPECT_EQ(GemmAutotuneCache(file, "device 1").find("a"), kOne);
  EXPECT_EQ(GemmAutotuneCache(file, "device 1").find("b"), kTwo);
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(GemmAutotuneCache(file, "device 2").find("a"), kTwo);
  EXPECT_FALSE(GemmAutotuneCache(file, "device").find("a"));
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("2 line(s) for another device"), std::string::npos) << log;
  EXPECT_NE(log.find("3 line(s) for another device"), std::string::npos) << log;
}

// Ranks gather each other's lines: the first rank's count, and nothing of the file is lost.
TEST(GemmAutotuneCacheTest, TakeThoseOfTheFirstWhoHasThem) {
  constexpr GemmAlgorithm kThree{7};
  const TempFolder folder;
  const fs::path file = folder / "gemms.txt";
  GemmAutotuneCache(file, "another device").store("a", kThree);
  ::testing::internal::CaptureStderr();
  GemmAutotuneCache rank0(file, "device");
  ::testing::internal::GetCapturedStderr();
  GemmAutotuneCache rank1({}, "device");
  rank0.store("a", kOne);
  rank1.store("a", kTwo);
  rank1.store("b", kThree);
  const std::string all = rank0.text() + rank1.text();
  for (GemmAutotuneCache* each : {&rank0, &rank1}) {
    each->take(all);
    EXPECT_EQ(each->find("a"), kOne);
    EXPECT_EQ(each->find("b"), kThree);
  }
  EXPECT_EQ(rank0.text(), rank1.text());
  EXPECT_EQ(lines_of(file).size(), 3u);
  EXPECT_EQ(rank0.text().find("another"), std::string::npos);
  rank1.take("junk\n" + rank1.text());
  EXPECT_EQ(rank0.text(), rank1.text());
}

// Every single changed character must be noticed, and must cost one line only.
TEST(GemmAutotuneCacheTest, DamagedLinesAreLeftOut) {
  const TempFolder folder;
  const fs::path file = folder / "gemms.txt";
  GemmAutotuneCache(file, "device").store("a", kOne);
  GemmAutotuneCache(file, "device").store("b", kTwo);
  const std::vector<std::string> lines = lines_of(file);
  ASSERT_EQ(lines.size(), 2u);
  ::testing::internal::CaptureStderr();
  for (std::size_t i = 0; i < lines[0].size(); i += 3) {
    std::string damaged = lines[0];
    damaged[i] = damaged[i] == '0' ? '1' : '0';
    put(file, damaged + '\n' + lines[1] + '\n');
    const GemmAutotuneCache cache(file, "device");
    EXPECT_FALSE(cache.find("a")) << damaged;
    EXPECT_EQ(cache.find("b"), kTwo);
  }
  for (const std::string& junk :
       {std::string("\t"), std::string("\t\t\t\t"), std::string("words"), lines[0].substr(0, 90),
        lines[0] + "0", std::string(1000, '\0'), std::string("\xff\xfe\r\n\t")}) {
    put(file, junk + '\n' + lines[1]);
    const GemmAutotuneCache cache(file, "device");
    EXPECT_FALSE(cache.find("a"));
    EXPECT_EQ(cache.find("b"), kTwo);
  }
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("1 damaged line(s)"), std::string::npos);
}

TEST(GemmAutotuneCacheTest, AFileThatCannotBeUsedStopsNothing) {
  const TempFolder folder;
  ::testing::internal::CaptureStderr();
  GemmAutotuneCache cache(folder.path(), "device");
  cache.store("a", kOne);
  cache.store("b", kTwo);
  EXPECT_EQ(cache.find("a"), kOne);
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("the gemm file cannot be used"), std::string::npos) << log;
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1) << "one warning is enough:\n" << log;
}

class CudaGemmAutotuneTest : public OnGpu {
 protected:
  // d[64, 64] in f32 of k terms each, from 16 bits: split over k when k is large.
  Values product(const CudaOptions& options, std::int64_t k) {
    const auto kernels = make_cuda_kernels(kGpu, options);
    const Tensor a = gpu->tensor(dtype(), {64, k}, random_values(64 * k, 1));
    const Tensor b = gpu->tensor(dtype(), {64, k}, random_values(64 * k, 2));
    const Tensor d = gpu->full(acc(), {64, 64}, -55);
    kernels->gemm(gpu->stream, d, a.view(), b.view(), {.transpose_b = true});
    return gpu->read(d);
  }

  void SetUp() override {
    OnGpu::SetUp();
    if (!IsSkipped()) gpu = std::make_unique<Lab>(kGpu);
  }

  static constexpr std::int64_t kLong = 1 << 15;
  static constexpr std::int64_t kShort = 64;
  TempFolder folder;
  const std::string file = (folder / "gemms.txt").string();
  std::unique_ptr<Lab> gpu;
};

TEST_P(CudaGemmAutotuneTest, ADeterministicRunTimesNothing) {
  const Values first = product({.gemm_file = file}, kLong);
  EXPECT_FALSE(fs::exists(file));
  EXPECT_TRUE(product({.gemm_file = file}, kLong) == first);
}

TEST_P(CudaGemmAutotuneTest, WhatWasTimedIsUsedAgain) {
  const Values timed = product({.deterministic = false, .gemm_file = file}, kLong);
  const std::vector<std::string> lines = lines_of(file);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find("m=64 n=64 k=32768"), std::string::npos) << lines[0];
  for (const bool deterministic : {true, false})
    EXPECT_TRUE(product({.deterministic = deterministic, .gemm_file = file}, kLong) == timed);
  EXPECT_EQ(lines_of(file), lines) << "nothing new was timed";
}

// The algorithm for a short sum, which is not split, is put in the place of the one for a long sum,
// which is: the bits must follow, and the values must stay.
TEST_P(CudaGemmAutotuneTest, TheFileDecides) {
  const Values split = product({.deterministic = false, .gemm_file = file}, kLong);
  product({.deterministic = false, .gemm_file = file}, kShort);
  const std::vector<std::string> lines = lines_of(file);
  ASSERT_EQ(lines.size(), 2u);
  const auto field = [](const std::string& line, int tabs) {
    std::size_t begin = 0;
    for (int i = 0; i < tabs; ++i) begin = line.find('\t', begin) + 1;
    return line.substr(begin, line.find('\t', begin) - begin);
  };
  const bool first_is_long = lines[0].find("k=32768") != std::string::npos;
  const std::string& long_line = lines[first_is_long ? 0 : 1];
  const std::string& short_line = lines[first_is_long ? 1 : 0];
  GemmAutotuneCache cache(file, field(lines[0], 0) + '\t' + field(lines[0], 1));
  const auto whole = cache.find(field(short_line, 2));
  ASSERT_TRUE(whole && cache.find(field(long_line, 2)) != whole);
  cache.store(field(long_line, 2), *whole);
  const Values unsplit = product({.gemm_file = file}, kLong);
  EXPECT_FALSE(unsplit == split) << "another order of sums must show";
  EXPECT_LE(relative_error(unsplit, split), 1e-4);
}

TEST_P(CudaGemmAutotuneTest, ADamagedFileStopsNothing) {
  const Values expected = product({}, kLong);
  put(file, "not a line\n");
  ::testing::internal::CaptureStderr();
  EXPECT_TRUE(product({.gemm_file = file}, kLong) == expected);
  EXPECT_LE(relative_error(product({.deterministic = false, .gemm_file = file}, kLong), expected),
            1e-4);
  ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(lines_of(file).size(), 1u) << "the damaged line is gone, the algorithm is there";
}

INSTANTIATE_TEST_SUITE_P(Gpu, CudaGemmAutotuneTest, ::testing::Values(DType::bf16, DType::f16),
                         name_of_dtype);

}  // namespace
}  // namespace tessera::test
