// Column sums of the CUDA backend against the CPU backend, in packs and in single elements, in one
// piece of rows and in many.
#include <gtest/gtest.h>

#include "tests/cuda/gemm_fixture.h"

namespace tessera::test {
namespace {

using CudaColumnSumTest = CudaGemmFixture;

TEST_P(CudaColumnSumTest, OfEveryShape) {
  for (const Shape& shape : {Shape{0, 40}, {1, 8}, {63, 264}, {4096, 768}, {5001, 96}, {700, 2309}})
    for (const std::int64_t lead : {0, 3}) {
      SCOPED_TRACE(fmt::format("{} rows, {} columns, lead {}", shape[0], shape[1], lead));
      expect_same(
          [&](Lab& lab, Kernels& kernels) -> GemmResults {
            const Padded dy = strided(lab, dtype(), shape, 1, lead, 8);
            const Tensor db = random(lab, {shape[1]}, 2);
            const Tensor sums = random(lab, acc(), {shape[1]}, 3);
            kernels.column_sum(lab.stream, db, dy.view, false);
            kernels.column_sum(lab.stream, sums, dy.view, true);
            return {result(lab, db), result(lab, sums)};
          },
          2);
    }
}

TEST_P(CudaColumnSumTest, DoNotDependOnAlignment) {
  Lab gpu(kGpu);
  std::vector<Values> results;
  for (const std::int64_t lead : {0, 8, 1}) {
    const Padded dy = strided(gpu, dtype(), {3000, 776}, 1, lead, 16);
    const Tensor db = gpu.full(acc(), {776}, -55);
    gpu->column_sum(gpu.stream, db, dy.view, false);
    results.push_back(gpu.read(db));
  }
  EXPECT_TRUE(results[0] == results[1]);
  EXPECT_TRUE(results[0] == results[2]) << "packs and single elements add up in one order";
}

INSTANTIATE_TEST_SUITE_P(Gpu, CudaColumnSumTest, every_float(), name_of_dtype);

}  // namespace
}  // namespace tessera::test
