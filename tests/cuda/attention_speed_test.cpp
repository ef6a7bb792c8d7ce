// How long attention takes, way by way, at the sizes of common models. Only prints, and only when
// TESSERA_SPEED is set.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>

#include "tessera/kernels/cuda/attention/attention_kernels.h"
#include "tessera/kernels/cuda/attention/cudnn_attention.h"
#include "tests/cuda/on_gpu.h"
#include "tests/support/attention_run.h"

namespace tessera::test {
namespace {

using cuda::CudnnAttention;

std::vector<AttentionCase> models() {
  return {{.name = "gpt2-124m", .S = 1024, .T = 1024, .B = 32, .H = 12, .K = 12, .D = 64},
          {.name = "gpt2-1.5b", .S = 1024, .T = 1024, .B = 16, .H = 25, .K = 25, .D = 64},
          {.name = "llama3.2-1b", .S = 8192, .T = 8192, .B = 1, .H = 32, .K = 8, .D = 64},
          {.name = "llama3-8b", .S = 8192, .T = 8192, .B = 1, .H = 32, .K = 8, .D = 128}};
}

// Milliseconds of one call, the best of several rounds.
double time(Lab& lab, const std::function<void()>& call) {
  constexpr int kRounds = 5;
  constexpr int kCalls = 10;
  call();
  double best = 1e30;
  for (int round = 0; round < kRounds; ++round) {
    lab.stream.synchronize();
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < kCalls; ++i) call();
    lab.stream.synchronize();
    const std::chrono::duration<double, std::milli> spent =
        std::chrono::steady_clock::now() - start;
    best = std::min(best, spent.count() / kCalls);
  }
  return best;
}

// TFLOP/s count what a causal mask leaves: two products forward, five backward.
void print(const AttentionCase& c, const char* way, double forward, double backward) {
  const double product = static_cast<double>(c.B * c.H * c.D) * static_cast<double>(c.S * c.S);
  std::printf("%-12s %-21s forward %7.3f ms %4.0f TFLOP/s   backward %7.3f ms %4.0f TFLOP/s\n",
              c.name.c_str(), way, forward, 2 * product / forward * 1e-9, backward,
              5 * product / backward * 1e-9);
  std::fflush(stdout);
}

// The tensors of a layer: q, k, v side by side, as their gradients.
struct LayerTensors {
  LayerTensors(Lab& lab, const AttentionCase& c, DType dtype)
      : rows(random(lab, dtype, {c.S, c.B, c.H + 2 * c.K, c.D})),
        grads(lab.empty(dtype, rows.view().shape())),
        o(lab.empty(dtype, c.q_shape())),
        d_o(random(lab, dtype, c.q_shape())),
        lse(lab.empty(DType::f32, {c.B, c.H, c.S})),
        q(rows.view().slice(2, 0, c.H)),
        k(rows.view().slice(2, c.H, c.K)),
        v(rows.view().slice(2, c.H + c.K, c.K)),
        dq(grads.view().slice(2, 0, c.H)),
        dk(grads.view().slice(2, c.H, c.K)),
        dv(grads.view().slice(2, c.H + c.K, c.K)) {}

  static Tensor random(Lab& lab, DType dtype, const Shape& shape) {
    Tensor x = lab.empty(dtype, shape);
    lab->random_normal(lab.stream, x, 7, shape, {0, 0, 0, 0}, 0, 1);
    return x;
  }
  Tensor rows, grads, o, d_o, lse;
  View q, k, v, dq, dk, dv;
};

class AttentionSpeedTest : public OnGpu {
 protected:
  void SetUp() override {
    OnGpu::SetUp();
    if (!std::getenv("TESSERA_SPEED")) GTEST_SKIP() << "set TESSERA_SPEED to measure";
  }
};

TEST_P(AttentionSpeedTest, OfCudnn) {
  for (AttentionCase c : models())
    for (const bool deterministic : {false, true}) {
      c.scale = 0.1;
      Lab gpu(kGpu);
      CudnnAttention cudnn(kGpu, deterministic);
      const LayerTensors x(gpu, c, dtype());
      const AttentionSetup setup = set_up(gpu, c, dtype());
      const Tensor room =
          gpu.workspace(cudnn.workspace_bytes(c.q_shape(), c.k_shape(), c.v_shape(), dtype()));
      const double forward = time(gpu, [&] {
        EXPECT_TRUE(cudnn.forward(gpu.stream, x.o, x.lse, x.q, x.k, x.v, setup.spec, room));
      });
      const double backward = time(gpu, [&] {
        EXPECT_TRUE(cudnn.backward(gpu.stream, x.dq, x.dk, x.dv, x.d_o.view(), x.q, x.k, x.v,
                                   x.o.view(), x.lse.view(), setup.spec, room));
      });
      print(c, deterministic ? "cuDNN, deterministic" : "cuDNN", forward, backward);
    }
}

TEST_P(AttentionSpeedTest, OfTiles) {
  for (AttentionCase c : models())
    for (const double p : {0.0, 0.1}) {
      c.scale = 0.1;
      c.p = p;
      c.samples = Values(static_cast<std::size_t>(c.B), 1);
      Lab gpu(kGpu);
      const LayerTensors x(gpu, c, dtype());
      const AttentionSetup setup = set_up(gpu, c, dtype());
      const double forward = time(gpu, [&] {
        cuda::attention_forward_tiles(gpu.stream, x.o, x.lse, x.q, x.k, x.v, setup.spec);
      });
      const double backward = time(gpu, [&] {
        cuda::attention_backward_tiles(gpu.stream, x.dq, x.dk, x.dv, x.d_o.view(), x.q, x.k, x.v,
                                       x.o.view(), x.lse.view(), setup.spec, setup.workspace);
      });
      print(c, p > 0 ? "tiles, dropout" : "tiles", forward, backward);
    }
}

INSTANTIATE_TEST_SUITE_P(Gpu, AttentionSpeedTest, ::testing::Values(DType::bf16), name_of_dtype);

}  // namespace
}  // namespace tessera::test
