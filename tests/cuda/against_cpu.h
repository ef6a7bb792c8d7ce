// The fixture of tests that compare an op on the GPU with the same op on the CPU, element by
// element. The op runs on the GPU twice, directly and as a captured graph, and must repeat its
// bits.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <vector>

#include "tests/cuda/on_gpu.h"
#include "tests/support/values.h"

namespace tessera::test {

/// Calls of ops, with the tensors to compare afterwards: results, and what must stay as it was.
struct Prepared {
  std::vector<Tensor> tensors;
  std::function<void()> run;
};

class AgainstCpu : public OnGpu {
 protected:
  using Prepare = std::function<Prepared(Lab&)>;

  void SetUp() override {
    OnGpu::SetUp();
    if (!IsSkipped()) gpu_.emplace(kGpu);
  }

  /// Elements may be one rounding of their type apart, and what rounding of sums leaves behind.
  void expect_same(const Prepare& prepare) {
    expect(prepare, [](const Values& got, const Values& expected, DType type) {
      expect_elements(got, expected, type);
    });
  }
  /// For ops of which every device must give the same bits.
  void expect_equal(const Prepare& prepare) {
    expect(prepare, [](const Values& got, const Values& expected, DType) {
      EXPECT_TRUE(got == expected) << "must be the CPU's bits";
    });
  }

  Tensor random(Lab& lab, const Shape& shape, std::uint64_t seed, double scale = 1) const {
    return random(lab, dtype(), shape, seed, scale);
  }
  static Tensor random(Lab& lab, DType type, const Shape& shape, std::uint64_t seed,
                       double scale = 1) {
    return lab.tensor(type, shape, random_values(shape.numel(), seed, scale));
  }

 private:
  static double spacing(DType type) {
    switch (type) {
      case DType::f64: return 1e-12;
      case DType::f32: return 1e-5;
      case DType::bf16: return 0x1p-7;
      default: return 0x1p-10;
    }
  }

  // What rounding to bf16 took from f32 weights, in units of the f32's last bit: 2^16 of them to
  // the next bf16, where a weight may have been rounded to. Sums that cancel differ by hundreds.
  static void expect_low_bits(const Values& got, const Values& expected) {
    constexpr int kMost = 1 << 12;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const auto difference = static_cast<std::int16_t>(static_cast<int>(got[i] - expected[i]));
      ASSERT_LE(std::abs(static_cast<int>(difference)), kMost)
          << "element " << i << " is " << got[i] << " instead of " << expected[i];
    }
  }

  static void expect_elements(const Values& got, const Values& expected, DType type) {
    ASSERT_EQ(got.size(), expected.size());
    if (expected.empty()) return;
    if (type == DType::i16) return expect_low_bits(got, expected);
    const double size = norm_of(expected) / std::sqrt(static_cast<double>(expected.size()));
    const double floor = (type == DType::f64 ? 1e-12 : 1e-5) * size;
    for (std::size_t i = 0; i < expected.size(); ++i)
      ASSERT_LE(std::fabs(got[i] - expected[i]), spacing(type) * std::fabs(expected[i]) + floor)
          << "element " << i << " is " << got[i] << " instead of " << expected[i];
  }

  template <class F>
  void expect(const Prepare& prepare, F&& compare) {
    const Prepared expected = prepare(cpu_);
    expected.run();
    const Prepared direct = prepare(*gpu_);
    direct.run();
    const Prepared captured = prepare(*gpu_);
    Graph graph(gpu_->stream, captured.run);
    graph.launch(gpu_->stream);
    for (std::size_t i = 0; i < expected.tensors.size(); ++i) {
      SCOPED_TRACE("tensor " + std::to_string(i));
      compare(gpu_->read(direct.tensors[i].view()), cpu_.read(expected.tensors[i].view()),
              expected.tensors[i].view().dtype());
      EXPECT_TRUE(gpu_->bytes(direct.tensors[i]) == gpu_->bytes(captured.tensors[i]))
          << "a graph must repeat the bits of direct calls";
    }
  }

  Lab cpu_;
  std::optional<Lab> gpu_;  ///< made once per test: its libraries take a while to start
};

}  // namespace tessera::test
