// The optimizers and the gradient norm on the GPU against the CPU, on ranges that begin anywhere.
#include <gtest/gtest.h>

#include <cstring>
#include <optional>

#include "tessera/kernels/step_state.h"
#include "tests/cuda/against_cpu.h"
#include "tests/cuda/bandwidth.h"

namespace tessera::test {
namespace {

constexpr StepState kThirdStep{.step = 3, .rates = {0.02, 0.01, 0.1}, .clip_factor = 0.75};

Tensor upload(Lab& lab, const StepState& state) {
  std::vector<std::uint8_t> bytes(sizeof(state));
  std::memcpy(bytes.data(), &state, sizeof(state));
  return lab.tensor(DType::u8, {sizeof(state)}, Values(bytes.begin(), bytes.end()));
}

class CudaOptimizerTest : public AgainstCpu {
 protected:
  struct RangeCase {
    std::int64_t n;
    std::int64_t begin;        ///< of all ranges in their tensors
    std::int64_t value_begin;  ///< of the values, when it is another
    DType grad;
    std::optional<DType> master;
  };
  // Every length and beginning, with and without a master copy where the type allows both.
  std::vector<RangeCase> cases() const {
    std::vector<RangeCase> all;
    for (const std::int64_t n : {3, 1037, 70'001})
      for (const std::int64_t begin : {0, 1, 6})
        for (const std::int64_t value_begin : {begin, begin + 1})
          for (const DType grad : {dtype(), acc()})
            for (const auto& master : masters())
              all.push_back({n, begin, value_begin, grad, master});
    return all;
  }
  std::vector<std::optional<DType>> masters() const {
    std::vector<std::optional<DType>> types{acc()};
    if (acc() == dtype()) types.emplace_back();
    if (dtype() == DType::bf16) types.emplace_back(DType::i16);
    return types;
  }

  // What a step works on, as parts of larger tensors: what lies around them must stay.
  struct Range {
    Range(Lab& lab, const RangeCase& c, DType type, DType acc)
        : n(c.n),
          state(upload(lab, kThirdStep)),
          all{random(lab, type, {n + 9}, 1),
              c.master == DType::i16 ? random(lab, DType::i16, {n + 9}, 1, 9000)
                                     : random(lab, acc, {n + 9}, 1),
              random(lab, acc, {n + 9}, 2, 0.1), lab.full(acc, {n + 9}, 0.01),
              random(lab, c.grad, {n + 9}, 3)},
          value(all[0].view().slice(0, c.value_begin, n)),
          master(c.master ? part(1, c) : View()),
          m(part(2, c)),
          v(part(3, c)),
          grad(part(4, c)) {}
    View part(std::size_t i, const RangeCase& c) const {
      return all[i].view().slice(0, c.begin, n);
    }

    std::int64_t n;
    Tensor state;
    std::vector<Tensor> all;
    View value, master, m, v, grad;
  };
};

TEST_P(CudaOptimizerTest, Adamw) {
  for (const RangeCase& c : cases())
    for (const bool decay : {true, false})
      expect_same([&](Lab& lab) -> Prepared {
        const Range r(lab, c, dtype(), acc());
        const AdamSpec spec{.beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-6, .decay = decay};
        return {r.all, [=, &lab] {
                  lab->adamw_step(lab.stream, r.value, r.master, r.m, r.v, r.grad, r.state, spec);
                }};
      });
}

TEST_P(CudaOptimizerTest, Sgd) {
  for (const RangeCase& c : cases())
    for (const double momentum : {0.0, 0.9})
      expect_same([&](Lab& lab) -> Prepared {
        const Range r(lab, c, dtype(), acc());
        const SgdSpec spec{.momentum = momentum, .decay = momentum > 0};
        return {r.all, [=, &lab] {
                  lab->sgd_step(lab.stream, r.value, r.master, r.m, r.grad, r.state, spec);
                }};
      });
}

TEST_P(CudaOptimizerTest, GradientNorm) {
  // 8192 is the shortest piece; from 8 million elements on, pieces are longer than that.
  for (const std::int64_t n : {0, 1, 8192, 8193, 70'001, 9'000'001})
    for (const std::int64_t begin : {0, 1})
      expect_same([&](Lab& lab) -> Prepared {
        const Tensor whole = lab.full(dtype(), {n + begin}, 0.5);
        lab.write(whole.view().slice(0, 0, std::min<std::int64_t>(n, 1000)),
                  random_values(std::min<std::int64_t>(n, 1000), 1));
        const Tensor squares = lab.full(DType::f64, {1}, 3);
        const Tensor alone = lab.full(DType::f64, {1}, -55);
        const Tensor norm = lab.full(DType::f64, {1}, -55);
        const Tensor count = lab.full(DType::f64, {1}, -55);
        const Tensor one = lab.full(DType::f64, {1}, 1);
        const Tensor rates = lab.full(DType::f64, {1, kStepRates}, 1);
        const Tensor records = lab.full(DType::u8, {sizeof(StepRecord)}, 0);
        const Tensor state = upload(lab, kThirdStep);
        const Tensor workspace = lab.workspace(lab->sum_squares_workspace_bytes(n));
        return {{squares, alone, count, norm}, [=, &lab] {
                  const View x = whole.view().slice(0, begin, n);
                  lab->sum_squares(lab.stream, alone, x, false, workspace);
                  lab->sum_squares(lab.stream, squares, x, true, workspace);
                  lab->count_nonzero(lab.stream, count, x, false, workspace);
                  lab->finish_step(lab.stream, state, records, squares, one, one, rates,
                                   {.max_norm = 1});
                  const View bytes(norm.view().raw(), DType::u8, {sizeof(double)});
                  lab->copy(lab.stream, bytes,
                            state.view().slice(0, offsetof(StepState, clip_factor), 8));
                }};
      });
}

INSTANTIATE_TEST_SUITE_P(Gpu, CudaOptimizerTest, every_float(), name_of_dtype);

class CudaLargeOptimizerTest : public OnGpu {};

TEST_P(CudaLargeOptimizerTest, GradientsBeyond32Bits) {
  constexpr std::int64_t n = (std::int64_t{1} << 31) + 12'345;
  Lab gpu(kGpu);
  const Tensor x = gpu.empty(dtype(), {n});
  const Tensor sum = gpu.full(DType::f64, {1}, -55);
  gpu->fill(gpu.stream, x, 0.5);
  gpu->sum_squares(gpu.stream, sum, x, false, gpu.workspace(gpu->sum_squares_workspace_bytes(n)));
  EXPECT_EQ(gpu.read(sum), Values{0.25 * static_cast<double>(n)});
}

// More elements than all threads of a launch take at once, and the same in parts that are not.
TEST_P(CudaLargeOptimizerTest, LongRangesAreUpdatedAsTheirPartsAre) {
  constexpr std::int64_t n = 40'000'003, part = 8'000'000;
  Lab gpu(kGpu);
  const Tensor state = upload(gpu, kThirdStep);
  const auto update = [&](std::int64_t length) {
    const Tensor value = gpu.empty(dtype(), {n}), master = gpu.empty(acc(), {n});
    const Tensor m = gpu.empty(acc(), {n}), v = gpu.empty(acc(), {n}), grad = gpu.empty(acc(), {n});
    std::uint64_t key = 0;
    for (const Tensor& each : {value, master, m, grad})
      gpu->random_normal(gpu.stream, each, ++key, {n}, {0}, 0, 1);
    gpu->fill(gpu.stream, v, 0.01);
    for (std::int64_t at = 0; at < n; at += length) {
      const auto in = [&](const Tensor& x) {
        return x.view().slice(0, at, std::min(length, n - at));
      };
      gpu->adamw_step(gpu.stream, in(value), in(master), in(m), in(v), in(grad), state, {});
    }
    std::vector<std::vector<std::uint8_t>> bytes;
    for (const Tensor& each : {value, master, m, v}) bytes.push_back(gpu.bytes(each));
    return bytes;
  };
  EXPECT_TRUE(update(n) == update(part));
}

// A model of 1.24 billion parameters, as llama3.2-1b.
TEST_P(CudaLargeOptimizerTest, Speed) {
  if (!speed_wanted()) GTEST_SKIP() << "set TESSERA_SPEED to see it";
  constexpr std::int64_t n = 1'235'814'400;
  Lab gpu(kGpu);
  const Tensor value = gpu.empty(dtype(), {n});
  const Tensor master = gpu.empty(DType::f32, {n}), m = gpu.empty(DType::f32, {n});
  const Tensor v = gpu.empty(DType::f32, {n}), grad = gpu.empty(DType::f32, {n});
  const Tensor narrow = gpu.empty(dtype(), {n});
  for (const Tensor& each : {value, master, m, grad, narrow})
    gpu->random_normal(gpu.stream, each, 7, {n}, {0}, 0, 0.02);
  gpu->fill(gpu.stream, v, 1e-4);
  const Tensor state = upload(gpu, kThirdStep);
  const Tensor sum = gpu.full(DType::f64, {1}, 0);
  const Tensor workspace = gpu.workspace(gpu->sum_squares_workspace_bytes(n));
  constexpr double kN = static_cast<double>(n);
  print_bandwidth(gpu, "adamw_step, f32 gradients", 30 * kN,
                  [&] { gpu->adamw_step(gpu.stream, value, master, m, v, grad, state, {}); });
  print_bandwidth(gpu, "adamw_step, bf16 gradients", 28 * kN,
                  [&] { gpu->adamw_step(gpu.stream, value, master, m, v, narrow, state, {}); });
  print_bandwidth(gpu, "sgd_step, f32 gradients", 22 * kN,
                  [&] { gpu->sgd_step(gpu.stream, value, master, m, grad, state, {}); });
  print_bandwidth(gpu, "sum_squares, f32", 4 * kN,
                  [&] { gpu->sum_squares(gpu.stream, sum, grad, false, workspace); });
  const View part = grad.view().slice(0, 0, 8192 * 2048);
  print_bandwidth(gpu, "sum_squares, f32, 8192 x 2048", 4 * static_cast<double>(part.numel()),
                  [&] { gpu->sum_squares(gpu.stream, sum, part, false, workspace); });
}

INSTANTIATE_TEST_SUITE_P(Gpu, CudaLargeOptimizerTest, ::testing::Values(DType::bf16),
                         name_of_dtype);

}  // namespace
}  // namespace tessera::test
