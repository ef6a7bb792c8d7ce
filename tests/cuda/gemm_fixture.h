// The fixture of tests that compare matrix products and column sums with the CPU backend: each runs
// with the library's first algorithm and with the fastest one, twice.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "tests/cuda/on_gpu.h"
#include "tests/support/values.h"

namespace tessera::test {

/// What a run leaves, with the type that it was rounded to.
using GemmResults = std::vector<std::pair<DType, Values>>;

class CudaGemmFixture : public OnGpu {
 protected:
  using Run = std::function<GemmResults(Lab&, Kernels&)>;

  // Both backends round each element once; the rest is the order of sums, which may round an
  // element to its neighbour. Sums of 16-bit products cost some bits more: tensor cores cut off
  // where others round.
  double tolerance_of(DType type) const {
    switch (type) {
      case DType::f64: return 1e-14;
      case DType::f32: return dtype() == DType::f32 ? 5e-6 : 2e-5;
      case DType::bf16: return 0x1p-8;
      default: return 0x1p-11;
    }
  }

  void expect_same(const Run& run, double factor = 1) const {
    Lab cpu({}, 4);
    const GemmResults expected = run(cpu, *cpu.operator->());
    Lab gpu(kGpu);
    for (const bool deterministic : {true, false}) {
      SCOPED_TRACE(deterministic ? "first choice" : "fastest choice");
      const auto kernels = make_cuda_kernels(kGpu, {.deterministic = deterministic});
      const GemmResults got = run(gpu, *kernels);
      ASSERT_EQ(got.size(), expected.size());
      for (std::size_t i = 0; i < got.size(); ++i)
        EXPECT_LE(relative_error(got[i].second, expected[i].second),
                  factor * tolerance_of(got[i].first))
            << "result " << i;
      EXPECT_TRUE(run(gpu, *kernels) == got) << "a second run must repeat the bits of the first";
    }
  }

  Tensor random(Lab& lab, const Shape& shape, std::uint64_t seed, double scale = 1) const {
    return random(lab, dtype(), shape, seed, scale);
  }
  static Tensor random(Lab& lab, DType type, const Shape& shape, std::uint64_t seed,
                       double scale = 1) {
    return lab.tensor(type, shape, random_values(shape.numel(), seed, scale));
  }
  // Rows that begin `lead` elements into rows that are `gap` elements longer.
  static Padded strided(Lab& lab, DType type, const Shape& shape, std::uint64_t seed,
                        std::int64_t lead, std::int64_t gap) {
    Padded x{lab.full(type, {shape[0], shape[1] + gap}, Padded::kGap), {}};
    x.view = x.whole.view().slice(1, lead, shape[1]);
    lab.write(x.view, random_values(shape.numel(), seed));
    return x;
  }

  static GemmResults::value_type result(Lab& lab, const View& x) {
    return {x.dtype(), lab.read(x)};
  }
  // Checks that nothing was written between the rows, and then overwrites them.
  static GemmResults::value_type result(Lab& lab, const Padded& x) {
    GemmResults::value_type rows = result(lab, x.view);
    lab.write(x.view, Values(rows.second.size(), Padded::kGap));
    for (const double each : lab.read(x.whole)) EXPECT_EQ(each, Padded::kGap);
    return rows;
  }
};

}  // namespace tessera::test
