// Ranks as threads that share one GPU: they do what they do on the CPU, to the bit.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tessera/launch/launch.h"
#include "tests/comm/conformance.h"
#include "tests/cuda/on_gpu.h"

namespace tessera {
namespace {

class SharedGpu : public test::OnGpu {};

TEST_P(SharedGpu, Conforms) {
  for (const int ranks : {2, 4}) {
    SCOPED_TRACE("ranks " + std::to_string(ranks));
    run_ranks(ranks, 1, [&](Rank& rank) {
      test::Conformance(*rank.world, test::kGpu, dtype()).expect_everything();
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Types, SharedGpu,
                         testing::Values(DType::f64, DType::f32, DType::bf16, DType::f16,
                                         DType::i64, DType::i32, DType::i16, DType::u8),
                         test::name_of_dtype);

class SharedGpuBits : public test::OnGpu {};

// What every rank has after some reductions, byte by byte.
std::vector<std::vector<std::uint8_t>> reduced(Device device, DType dtype) {
  constexpr int kRanks = 4;
  constexpr std::int64_t kCount = 1000;
  std::vector<std::vector<std::uint8_t>> all(kRanks);
  run_ranks(kRanks, 1, [&](Rank& rank) {
    test::Lab lab(device);
    const auto mine = test::random_values(kRanks * kCount, 7 + static_cast<unsigned>(rank.rank));
    const Tensor sum = lab.tensor(dtype, {kRanks * kCount}, mine);
    const Tensor mean = lab.tensor(dtype, {kRanks * kCount}, mine);
    const Tensor part = lab.full(dtype, {kCount}, 0);
    rank.world->all_reduce(sum, ReduceOp::sum, lab.stream)->wait(lab.stream);
    rank.world->reduce_scatter(part, mean.view(), ReduceOp::sum, lab.stream)->wait(lab.stream);
    rank.world->all_reduce(mean, ReduceOp::avg, lab.stream)->wait(lab.stream);
    auto& bytes = all[static_cast<std::size_t>(rank.rank)];
    for (const View& x : {sum.view(), mean.view(), part.view()}) {
      const auto more = lab.bytes(x);
      bytes.insert(bytes.end(), more.begin(), more.end());
    }
  });
  return all;
}

TEST_P(SharedGpuBits, AreThoseOfTheCpu) {
  EXPECT_EQ(reduced(test::kGpu, dtype()), reduced(Device{}, dtype()));
}

INSTANTIATE_TEST_SUITE_P(Types, SharedGpuBits, test::every_float(), test::name_of_dtype);

}  // namespace
}  // namespace tessera
