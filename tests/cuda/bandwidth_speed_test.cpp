// How much memory bandwidth the bandwidth-bound ops reach: tables for a person, no verdict. Runs
// when TESSERA_SPEED is set.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <vector>

#include "tests/cuda/on_gpu.h"

namespace tessera::test {
namespace {

// Each call works on the next of several copies of its tensors, so that nothing is left in the L2.
constexpr std::int64_t kCopies = 3;

class BandwidthSpeedTest : public OnGpu {
 protected:
  void SetUp() override {
    OnGpu::SetUp();
    if (IsSkipped()) return;
    if (!std::getenv("TESSERA_SPEED")) GTEST_SKIP() << "set TESSERA_SPEED to measure";
    gpu = std::make_unique<Lab>(kGpu);
  }
  Kernels& kernels() { return *gpu->operator->(); }
  Stream& stream() { return gpu->stream; }

  // [kCopies rows, columns]; at(x, i) is the i-th copy.
  Tensor random(DType type, std::int64_t rows, std::int64_t columns) {
    Tensor x = gpu->empty(type, {kCopies * rows, columns});
    kernels().random_normal(stream(), x, ++key_, {kCopies * rows, columns}, {0, 0}, 0, 1);
    return x;
  }
  static View at(const Tensor& x, int i) {
    const std::int64_t rows = x.view().dim(0) / kCopies;
    return x.view().slice(0, i % kCopies * rows, rows);
  }

  double seconds(const std::function<void(int)>& work, int repeats) {
    stream().synchronize();
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < repeats; ++i) work(i);
    stream().synchronize();
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
    return passed.count() / repeats;
  }
  // The median of nine, each long enough that the clock and the first launch do not matter.
  void report(const char* name, std::int64_t bytes, const std::function<void(int)>& work) {
    seconds(work, 6);
    const int repeats = std::clamp(static_cast<int>(0.02 / seconds(work, 3)), 3, 500);
    std::vector<double> times;
    for (int i = 0; i < 9; ++i) times.push_back(seconds(work, repeats));
    std::nth_element(times.begin(), times.begin() + 4, times.end());
    fmt::print("  {:<34} {:>8.1f} us {:>6.0f} GB/s\n", name, 1e6 * times[4],
               1e-9 * static_cast<double>(bytes) / times[4]);
  }

  void norms(std::int64_t n, std::int64_t c, const NormSpec& spec);
  void residuals(std::int64_t n, std::int64_t c);
  void activations(std::int64_t n, std::int64_t f);
  void copies(std::int64_t n, std::int64_t c);

  std::int64_t element() const { return static_cast<std::int64_t>(element_size(dtype())); }

  std::unique_ptr<Lab> gpu;

 private:
  RngKey key_ = 0;
};

void BandwidthSpeedTest::norms(std::int64_t n, std::int64_t c, const NormSpec& spec) {
  const bool layer = spec.kind == NormKind::layer;
  fmt::print(" {} x {}, {} norm\n", n, c, layer ? "layer" : "rms");
  const Tensor x = random(dtype(), n, c), y = random(dtype(), n, c), r = random(dtype(), n, c);
  const Tensor branch = random(dtype(), n, c), stats = random(acc(), n, 2);
  const Tensor weights = random(dtype(), 1, c), sums = random(acc(), 1, c);
  const ConstView w = at(weights, 0).reshape({c}), b = layer ? at(weights, 1).reshape({c}) : View();
  const View dw = at(sums, 0).reshape({c}), db = layer ? at(sums, 1).reshape({c}) : View();
  const Tensor samples = gpu->tensor(DType::i64, {8}, {0, 1, 2, 3, 4, 5, 6, 7});
  const Tensor room = gpu->workspace(kernels().norm_workspace_bytes(n, c, dtype()));
  const std::int64_t bytes = n * c * element();
  report("norm_forward", 2 * bytes, [&](int i) {
    kernels().norm_forward(stream(), at(y, i), at(stats, i), at(x, i), w, b, spec);
  });
  for (const double p : {0.0, 0.1})
    report(p > 0 ? "add_norm_forward, dropout" : "add_norm_forward", 4 * bytes, [&](int i) {
      kernels().add_norm_forward(stream(), at(y, i), at(r, i), at(stats, i), at(x, i),
                                 at(branch, i), w, b, spec, {p, 5, samples.view(), 0});
    });
  for (const bool add : {false, true})
    report(add ? "norm_backward, dx +" : "norm_backward", (add ? 4 : 3) * bytes, [&](int i) {
      kernels().norm_backward(stream(), at(r, i), dw, db, at(y, i), at(x, i), at(stats, i), w, spec,
                              add, true, room);
    });
}

void BandwidthSpeedTest::residuals(std::int64_t n, std::int64_t c) {
  fmt::print(" {} x {}, residual\n", n, c);
  const Tensor x = random(dtype(), n, c), y = random(dtype(), n, c), branch = random(dtype(), n, c);
  const Tensor samples = gpu->tensor(DType::i64, {8}, {0, 1, 2, 3, 4, 5, 6, 7});
  const std::int64_t bytes = n * c * element();
  for (const double p : {0.0, 0.1}) {
    const DropoutSpec dropout{p, 5, samples.view(), 0};
    report(p > 0 ? "add_dropout" : "add_dropout, p = 0", 3 * bytes, [&](int i) {
      kernels().add_dropout(stream(), at(y, i), at(x, i), at(branch, i), dropout);
    });
    report(p > 0 ? "dropout" : "dropout, p = 0", 2 * bytes,
           [&](int i) { kernels().add_dropout(stream(), at(y, i), {}, at(branch, i), dropout); });
  }
}

void BandwidthSpeedTest::activations(std::int64_t n, std::int64_t f) {
  fmt::print(" {} x {}, activations\n", n, f);
  const Tensor x = random(dtype(), n, 2 * f), dx = random(dtype(), n, 2 * f);
  const Tensor y = random(dtype(), n, f), dy = random(dtype(), n, f);
  const std::int64_t bytes = n * f * element();
  report("swiglu_forward", 3 * bytes, [&](int i) {
    kernels().gated_activation_forward(stream(), at(y, i), at(x, i), Activation::silu);
  });
  report("swiglu_backward", 6 * bytes, [&](int i) {
    kernels().gated_activation_backward(stream(), at(dx, i), at(dy, i), at(dy, i), at(x, i),
                                        Activation::silu);
  });
  report("gelu_forward", 2 * bytes, [&](int i) {
    kernels().activation_forward(stream(), at(y, i), at(dy, i), Activation::gelu);
  });
  report("gelu_backward", 3 * bytes, [&](int i) {
    kernels().activation_backward(stream(), at(y, i), at(y, i + 1), at(dy, i), Activation::gelu);
  });
}

void BandwidthSpeedTest::copies(std::int64_t n, std::int64_t c) {
  fmt::print(" {} x {}, copies\n", n, c);
  const Tensor x = random(dtype(), n, c), y = random(dtype(), n, c), wide = random(acc(), n, c);
  const std::int64_t bytes = n * c * element();
  const auto accumulators = static_cast<std::int64_t>(element_size(acc()));
  const auto part = [&](const Tensor& of, int i) { return at(of, i).slice(1, 0, c / 2); };
  report("copy", 2 * bytes, [&](int i) { kernels().copy(stream(), at(y, i), at(x, i)); });
  report("copy of half rows", bytes,
         [&](int i) { kernels().copy(stream(), part(y, i), part(x, i)); });
  report("copy, wider", bytes + n * c * accumulators,
         [&](int i) { kernels().copy(stream(), at(wide, i), at(x, i)); });
  report("copy, narrower", bytes + n * c * accumulators,
         [&](int i) { kernels().copy(stream(), at(x, i), at(wide, i)); });
  report("fill", bytes, [&](int i) { kernels().fill(stream(), at(x, i), 1); });
}

TEST_P(BandwidthSpeedTest, Norms) {
  norms(65536, 768, {NormKind::layer, 1e-5});
  norms(16384, 1600, {NormKind::layer, 1e-5});
  norms(16384, 2048, {NormKind::rms, 1e-5});
  norms(8192, 4096, {NormKind::rms, 1e-5});
  norms(8192, 8192, {NormKind::rms, 1e-5});
  norms(262144, 128, {NormKind::rms, 1e-5});  // the heads of 8192 rows
  norms(262144, 64, {NormKind::rms, 1e-5});
}

TEST_P(BandwidthSpeedTest, Pointwise) {
  residuals(65536, 768);
  residuals(8192, 4096);
  activations(65536, 3072);
  activations(8192, 14336);
}

TEST_P(BandwidthSpeedTest, Copies) {
  copies(65536, 768);
  copies(8192, 4096);
}

// Queries and keys in fused rows of queries, keys and values.
TEST_P(BandwidthSpeedTest, Rope) {
  struct Heads {
    std::int64_t rows, queries, groups, size;
  };
  for (const auto& [n, queries, groups, d] : {Heads{8192, 32, 8, 128}, {16384, 32, 8, 64}}) {
    fmt::print(" {} x ({} + {}) heads of {}\n", n, queries, groups, d);
    const Tensor qkv = random(dtype(), n, (queries + 2 * groups) * d);
    const Tensor cos = random(acc(), n, d / 2), sin = random(acc(), n, d / 2);
    const Tensor positions = gpu->empty(DType::i32, {n, 1});
    kernels().fill(stream(), positions, 7);
    const std::int64_t heads = queries + groups;
    report("rope", 2 * n * heads * d * element(), [&](int i) {
      const View x = at(qkv, i).split_last({1, queries + 2 * groups, d}).slice(2, 0, heads);
      kernels().rope(stream(), x, cos.view(), sin.view(), positions.view(), false);
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Gpu, BandwidthSpeedTest, ::testing::Values(DType::bf16), name_of_dtype);

}  // namespace
}  // namespace tessera::test
