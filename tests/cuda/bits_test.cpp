// What the CUDA backend shares with the CPU bit for bit: random numbers, largest magnitudes,
// dropout masks, copies, conversions; and what it says about ops that it lacks.
#include <gtest/gtest.h>

#include <functional>

#include "tests/cuda/on_gpu.h"
#include "tests/support/values.h"

namespace tessera::test {
namespace {

class CudaBitsTest : public OnGpu {
 protected:
  // Runs the same on both devices; `run` leaves its result in a whole tensor.
  static void expect_equal_bits(const std::function<Tensor(Lab&)>& run) {
    Lab cpu;
    Lab gpu(kGpu);
    EXPECT_TRUE(gpu.bytes(run(gpu)) == cpu.bytes(run(cpu)));
  }
};

TEST_P(CudaBitsTest, RandomNumbersAreThoseOfTheCpu) {
  expect_equal_bits([&](Lab& lab) {
    Tensor x = lab.full(dtype(), {301, 205}, 5);
    lab->random_normal(lab.stream, x.view().slice(1, 2, 200), 0x123456789abcdefULL, {1000, 5000},
                       {600, 4800}, 0.25, 0.02);
    return x;
  });
  expect_equal_bits([&](Lab& lab) {
    Tensor x = lab.full(dtype(), {77777}, 5);
    lab->random_normal(lab.stream, x, 3, {99999}, {11}, 0, 1);
    return x;
  });
}

TEST_P(CudaBitsTest, DropoutMasksAreThoseOfTheCpu) {
  for (const std::int64_t channels : {1, 6, 1027})
    for (const bool residual : {false, true})
      expect_equal_bits([&](Lab& lab) {
        const Shape shape{63, channels};
        // Powers of two: sums and products are exact, so that bits can be compared.
        const Tensor x = lab.full(dtype(), shape, 4);
        const Tensor branch = lab.full(dtype(), shape, 0.5);
        Tensor y = lab.full(dtype(), shape, -55);
        const Tensor samples = lab.tensor(DType::i64, {3}, {5, 1099511627776, 3});
        lab->add_dropout(lab.stream, y, residual ? x.view() : View(), branch.view(),
                         {0.5, 42, samples.view(), 100});
        return y;
      });
}

TEST_P(CudaBitsTest, CopiesConvertAsTheCpuDoes) {
  for (const DType to : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
    Values values = random_values(1155, 1, 100);
    values[0] = 65520;  // beyond f16
    values[1] = 3e-8;   // a subnormal of f16
    values[2] = -0.0;
    const auto copy = [&](Lab& lab, bool strided) {
      const Tensor from = lab.tensor(dtype(), {3, 35, 11}, values);
      const Tensor into = lab.full(to, {3, 35, 14}, 9);
      const Tensor flat = lab.full(to, {3, 35, 11}, 9);
      lab->copy(lab.stream, strided ? into.view().slice(2, 1, 11) : flat.view(), from.view());
      return strided ? into : flat;
    };
    expect_equal_bits([&](Lab& lab) { return copy(lab, true); });
    expect_equal_bits([&](Lab& lab) { return copy(lab, false); });
  }
}

TEST_P(CudaBitsTest, AmaxIsExact) {
  for (const Shape& shape : {Shape{1, 1}, {3, 8}, {77, 1027}, {5000, 768}})
    for (const std::int64_t gap : {0, 3})
      expect_equal_bits([&](Lab& lab) {
        const Tensor x = lab.tensor(dtype(), {shape[0], shape[1] + gap},
                                    random_values(shape[0] * (shape[1] + gap), 1));
        Tensor out = lab.full(DType::f32, {1}, gap > 0 ? 2 : 9);
        lab->amax(lab.stream, out, x.view().slice(1, 0, shape[1]), gap > 0);
        return out;
      });
}

TEST_P(CudaBitsTest, FillsAndScalars) {
  expect_equal_bits([&](Lab& lab) {
    Tensor x = lab.full(dtype(), {1001}, 9);
    lab->fill(lab.stream, x, -0.3);
    return x;
  });
  expect_equal_bits([&](Lab& lab) {
    Tensor x = lab.full(dtype(), {}, 9);
    const Tensor scalar = lab.full(dtype(), {}, 3);
    lab->copy(lab.stream, x, scalar.view());
    return x;
  });
}

INSTANTIATE_TEST_SUITE_P(Gpu, CudaBitsTest, every_float(), name_of_dtype);

class CudaWholeNumbersTest : public CudaBitsTest {};

TEST_P(CudaWholeNumbersTest, FillAndPermutedCopy) {
  expect_equal_bits([&](Lab& lab) {
    Tensor x = lab.full(dtype(), {2, 3, 4, 5, 2, 3}, 0);
    const Tensor y = lab.tensor(dtype(), x.view().shape(), random_indices(720, 1, 200));
    // The same elements in another order: dimensions 1 and 3 change places.
    const View turned(y.view().raw(), dtype(), {2, 5, 4, 3, 2, 3}, {360, 6, 30, 120, 3, 1});
    const View to(x.view().raw(), dtype(), {2, 5, 4, 3, 2, 3});
    lab->copy(lab.stream, to, turned);
    return x;
  });
  expect_equal_bits([&](Lab& lab) {
    Tensor x = lab.full(dtype(), {300}, 0);
    lab->fill(lab.stream, x, 7);
    return x;
  });
}

INSTANTIATE_TEST_SUITE_P(Gpu, CudaWholeNumbersTest,
                         ::testing::Values(DType::i64, DType::i32, DType::u8, DType::f16),
                         name_of_dtype);

}  // namespace
}  // namespace tessera::test
