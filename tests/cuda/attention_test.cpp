// The three ways of the CUDA backend to compute attention (cuDNN, our tensor-core kernels, our
// simple ones) against the CPU backend, at sizes that fit no tile, and which of them takes what.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include "tessera/kernels/cuda/attention/attention_kernels.h"
#include "tessera/kernels/cuda/attention/cudnn_attention.h"
#include "tests/cuda/attention_runs.h"
#include "tests/cuda/on_gpu.h"

namespace tessera::test {
namespace {

using cuda::CudnnAttention;

// Both sides round their results once; kernels for 16-bit types round probabilities and their
// gradients too. A kernel that is wrong in one key of a hundred is off by more.
double tolerance_of(DType dtype) {
  switch (dtype) {
    case DType::f64: return 2e-14;
    case DType::f32: return 1e-5;
    case DType::bf16: return 6e-3;
    default: return 1e-3;
  }
}

AttentionCase scaled(AttentionCase c) {
  c.scale = 1 / std::sqrt(static_cast<double>(c.D));
  return c;
}

// Masks that cuDNN has words for.
std::vector<AttentionCase> cases_for_cudnn() {
  return {
      {.name = "whole tiles", .S = 128, .T = 128, .B = 2, .H = 2, .K = 2, .D = 64},
      {.name = "causal", .S = 203, .T = 203, .B = 2, .H = 6, .K = 2, .D = 64},
      {.name = "not causal", .S = 77, .T = 131, .B = 1, .H = 4, .K = 1, .D = 128, .causal = false},
      {.name = "window", .S = 300, .T = 300, .B = 1, .H = 4, .K = 2, .D = 128, .window = 70},
      {.name = "prompt", .S = 90, .T = 157, .B = 2, .H = 2, .K = 1, .D = 96, .q_start = 67},
      {.name = "chunk and window",
       .S = 65,
       .T = 200,
       .B = 1,
       .H = 3,
       .K = 3,
       .D = 72,
       .window = 33,
       .q_start = 145,
       .kv_start = 10},
      {.name = "earlier keys", .S = 50, .T = 40, .B = 1, .H = 2, .K = 2, .D = 64, .q_start = 40},
      {.name = "window both ways",
       .S = 130,
       .T = 130,
       .B = 1,
       .H = 2,
       .K = 2,
       .D = 64,
       .causal = false,
       .window = 9},
      {.name = "widest", .S = 70, .T = 70, .B = 1, .H = 2, .K = 1, .D = 256},
      {.name = "narrow", .S = 33, .T = 33, .B = 3, .H = 6, .K = 6, .D = 16},
  };
}

// What is left for our own kernels.
std::vector<AttentionCase> dropout_cases() {
  return {
      {.name = "dropout",
       .S = 203,
       .T = 203,
       .B = 3,
       .H = 4,
       .K = 2,
       .D = 64,
       .p = 0.4,
       .samples = {1, 1099511627781, 3},
       .head_start = 8},
      {.name = "dropout in chunks",
       .S = 131,
       .T = 147,
       .B = 1,
       .H = 4,
       .K = 4,
       .D = 128,
       .q_start = 103,
       .kv_start = 57,
       .p = 0.2,
       .samples = {9}},
      {.name = "dropout and window",
       .S = 300,
       .T = 300,
       .B = 1,
       .H = 2,
       .K = 1,
       .D = 64,
       .window = 40,
       .p = 0.1,
       .samples = {9}},
      {.name = "dropout, heads of 40",
       .S = 66,
       .T = 66,
       .B = 1,
       .H = 2,
       .K = 1,
       .D = 40,
       .p = 0.3,
       .samples = {4}},
      {.name = "soft cap, dropout, window",
       .S = 130,
       .T = 150,
       .B = 1,
       .H = 2,
       .K = 1,
       .D = 128,
       .window = 40,
       .q_start = 20,
       .p = 0.2,
       .samples = {9},
       .softcap = 1},
  };
}

std::vector<AttentionCase> own_cases() {
  return {
      {.name = "documents",
       .S = 290,
       .T = 290,
       .B = 2,
       .H = 6,
       .K = 2,
       .D = 64,
       .documents = {0, 1, 40, 40, 190, 290, 0, 64, 65, 128, 200, 290}},
      {.name = "chunks of documents",
       .S = 130,
       .T = 150,
       .B = 1,
       .H = 2,
       .K = 1,
       .D = 128,
       .causal = false,
       .q_start = 20,
       .kv_start = 5,
       .documents = {10, 65, 145}},
      {.name = "across",
       .S = 80,
       .T = 250,
       .B = 1,
       .H = 2,
       .K = 1,
       .D = 64,
       .q_start = 90,
       .kv_start = 31},
      {.name = "one query", .S = 1, .T = 333, .B = 2, .H = 8, .K = 2, .D = 64, .q_start = 332},
      {.name = "one query, window",
       .S = 1,
       .T = 200,
       .B = 1,
       .H = 2,
       .K = 2,
       .D = 128,
       .window = 50,
       .q_start = 199},
      {.name = "some see nothing",
       .S = 190,
       .T = 20,
       .B = 1,
       .H = 2,
       .K = 1,
       .D = 128,
       .window = 9},
      {.name = "odd heads", .S = 77, .T = 77, .B = 2, .H = 3, .K = 3, .D = 33},
      {.name = "soft cap", .S = 203, .T = 203, .B = 2, .H = 6, .K = 2, .D = 64, .softcap = 2},
      {.name = "soft cap, heads of 40",
       .S = 66,
       .T = 66,
       .B = 1,
       .H = 2,
       .K = 1,
       .D = 40,
       .softcap = 1.5},
      {.name = "values of 20",
       .S = 66,
       .T = 80,
       .B = 2,
       .H = 4,
       .K = 2,
       .D = 33,
       .E = 20,
       .q_start = 14},
  };
}

class CudaAttentionTest : public OnGpu {
 protected:
  AttentionResults on_cpu(const AttentionCase& c) const {
    Lab cpu;
    HeadsRun run(cpu, c, dtype());
    run.call();
    return run.results();
  }
};

TEST_P(CudaAttentionTest, AgreesWithTheCpu) {
  Lab gpu(kGpu);
  for (const auto& cases : {cases_for_cudnn(), dropout_cases(), own_cases()})
    for (const AttentionCase& each : cases) {
      const AttentionCase c = scaled(each);
      HeadsRun run(gpu, c, dtype());
      run.call();
      expect_close(run.results(), on_cpu(c), tolerance_of(dtype()), c.name);
      run.expect_others_untouched();
    }
}

// Sizes that only some ways take, or none: whoever computes it, it is right.
TEST_P(CudaAttentionTest, ValuesMayHaveAnotherHeadSize) {
  Lab gpu(kGpu);
  for (const auto& [d, e] : {std::pair(64, 128), std::pair(192, 128), std::pair(128, 64)}) {
    const AttentionCase c = scaled({.name = fmt::format("{} and {}", d, e),
                                    .S = 140,
                                    .T = 140,
                                    .B = 2,
                                    .H = 4,
                                    .K = 2,
                                    .D = d,
                                    .E = e});
    HeadsRun run(gpu, c, dtype());
    run.call();
    expect_close(run.results(), on_cpu(c), tolerance_of(dtype()), c.name);
    run.expect_others_untouched();
  }
}

// In f32 and in the type of the inputs, instead of what is there and on top of it.
TEST_P(CudaAttentionTest, GradientsMayBeAddedUp) {
  Lab gpu(kGpu);
  for (const AttentionCase& each : {cases_for_cudnn()[1], cases_for_cudnn()[3], dropout_cases()[0],
                                    dropout_cases()[1], own_cases()[6]})
    for (const DType gradients : {dtype(), accumulator_type(dtype())}) {
      const AttentionCase c = scaled(each);
      const AttentionResults expected = on_cpu(c);
      HeadsRun run(gpu, c, dtype(), gradients);
      run.call();
      expect_close(run.results(), expected, tolerance_of(dtype()), c.name);
      run.call({.dq = true, .dk_dv = true});
      AttentionResults twice = expected;
      for (const int gradient : {2, 3, 4})
        for (double& value : twice.values[gradient]) value *= 2;
      expect_close(run.results(), twice, 1.5 * tolerance_of(dtype()), c.name + ", twice");
      run.call({.dq = false, .dk_dv = true});
      for (const int gradient : {3, 4})
        for (double& value : twice.values[gradient]) value *= 1.5;
      twice.values[2] = expected.values[2];
      expect_close(run.results(), twice, 2 * tolerance_of(dtype()), c.name + ", dk and dv thrice");
      run.expect_others_untouched();
    }
}

TEST_P(CudaAttentionTest, RepeatsItsBits) {
  Lab gpu(kGpu);
  for (const AttentionCase& each : {cases_for_cudnn()[1], dropout_cases()[0], own_cases()[6]}) {
    HeadsRun run(gpu, scaled(each), dtype());
    run.call();
    const auto first = run.bytes();
    for (int i = 0; i < 5; ++i) {
      run.poison();
      run.call();
      EXPECT_TRUE(run.bytes() == first) << each.name;
    }
  }
}

// Plans are made, and kernels loaded, while the stream is captured.
TEST_P(CudaAttentionTest, IsCapturedBeforeItEverRan) {
  for (const AttentionCase& each : {cases_for_cudnn()[1], dropout_cases()[0], own_cases()[6]}) {
    Lab gpu(kGpu);
    HeadsRun run(gpu, scaled(each), dtype());
    const auto untouched = run.bytes();
    Graph graph(gpu.stream, [&] { run.call(); });
    EXPECT_TRUE(run.bytes() == untouched) << each.name << ": capturing must not run the work";
    graph.launch(gpu.stream);
    const auto replayed = run.bytes();
    run.poison();
    run.call();
    EXPECT_TRUE(run.bytes() == replayed) << each.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Gpu, CudaAttentionTest, every_float(), name_of_dtype);

// Ways by name, on tensors of one run. Each returns whether it did the work.
bool by_cudnn(CudnnAttention& cudnn, HeadsRun& run) {
  return cudnn.forward(run.lab.stream, run.o, run.lse, run.q.view, run.k.view, run.v.view,
                       run.setup.spec, run.setup.workspace) &&
         cudnn.backward(run.lab.stream, run.dq, run.dk, run.dv, run.d_o.view, run.q.view,
                        run.k.view, run.v.view, run.o.view, run.lse.view(), run.setup.spec,
                        run.setup.workspace);
}
void by_tiles(HeadsRun& run) {
  cuda::attention_forward_tiles(run.lab.stream, run.o, run.lse, run.q.view, run.k.view, run.v.view,
                                run.setup.spec);
  cuda::attention_backward_tiles(run.lab.stream, run.dq, run.dk, run.dv, run.d_o.view, run.q.view,
                                 run.k.view, run.v.view, run.o.view, run.lse.view(), run.setup.spec,
                                 run.setup.workspace);
}
void by_rows(HeadsRun& run) {
  cuda::attention_forward_rows(run.lab.stream, run.o, run.lse, run.q.view, run.k.view, run.v.view,
                               run.setup.spec);
  cuda::attention_backward_rows(run.lab.stream, run.dq, run.dk, run.dv, run.d_o.view, run.q.view,
                                run.k.view, run.v.view, run.o.view, run.lse.view(), run.setup.spec,
                                run.setup.workspace);
}

// For 16-bit types, which alone have more than one way.
class AttentionWaysTest : public CudaAttentionTest {
 protected:
  // Room for either kind of backward pass.
  static void give_workspace(HeadsRun& run, const CudnnAttention& cudnn, const AttentionCase& c,
                             DType dtype) {
    run.setup.workspace = run.lab.workspace(
        std::max(run.lab->attention_workspace_bytes(c.q_shape(), c.k_shape(), c.v_shape(), dtype),
                 cudnn.workspace_bytes(c.q_shape(), c.k_shape(), c.v_shape(), dtype)));
  }
};

TEST_P(AttentionWaysTest, CudnnTakesItsCasesInEitherMode) {
  Lab gpu(kGpu);
  for (const bool deterministic : {false, true}) {
    CudnnAttention cudnn(kGpu, deterministic);
    for (const AttentionCase& each : cases_for_cudnn()) {
      const AttentionCase c = scaled(each);
      HeadsRun run(gpu, c, dtype());
      give_workspace(run, cudnn, c, dtype());
      EXPECT_TRUE(by_cudnn(cudnn, run)) << c.name;
      expect_close(run.results(), on_cpu(c), tolerance_of(dtype()), c.name);
      run.expect_others_untouched();
    }
  }
}

TEST_P(AttentionWaysTest, CudnnLeavesTheOthers) {
  Lab gpu(kGpu);
  CudnnAttention cudnn(kGpu, false);
  for (const auto& cases : {dropout_cases(), own_cases()})
    for (const AttentionCase& each : cases) {
      HeadsRun run(gpu, scaled(each), dtype());
      const auto before = run.bytes();
      EXPECT_FALSE(by_cudnn(cudnn, run)) << each.name;
      EXPECT_TRUE(run.bytes() == before) << each.name;
    }
}

TEST_P(AttentionWaysTest, CudnnLeavesRowsThatAreNotAligned) {
  Lab gpu(kGpu);
  CudnnAttention cudnn(kGpu, false);
  AttentionCase c = scaled(cases_for_cudnn()[0]);
  c.padded = true;
  const Values x = random_values(c.q_shape().numel(), 1);
  AttentionRun run(gpu, c, dtype(), {x, x, x});
  EXPECT_FALSE(cudnn.forward(gpu.stream, run.o, run.lse, run.q.view, run.k.view, run.v.view,
                             run.setup.spec, run.setup.workspace));
  EXPECT_FALSE(cuda::fits_tiles(run.q.view));
}

// Long rows, many tiles, more blocks than a GPU holds: against the simple kernels, which share
// nothing with the others but masks.
TEST_P(AttentionWaysTest, AgreeOnLongRows) {
  Lab gpu(kGpu);
  CudnnAttention cudnn(kGpu, false);
  for (const std::int64_t d : {64, 128})
    for (const double p : {0.0, 0.1}) {
      const AttentionCase c = scaled({.name = "long, heads of " + std::to_string(d),
                                      .S = 1500,
                                      .T = 1500,
                                      .B = 2,
                                      .H = 8,
                                      .K = 2,
                                      .D = d,
                                      .window = d == 64 ? 0 : 700,
                                      .p = p,
                                      .samples = {3, 4}});
      HeadsRun run(gpu, c, dtype());
      give_workspace(run, cudnn, c, dtype());
      by_rows(run);
      const AttentionResults expected = run.results();
      run.poison();
      by_tiles(run);
      expect_close(run.results(), expected, tolerance_of(dtype()), c.name + ", tiles");
      run.poison();
      if (!by_cudnn(cudnn, run)) continue;  // it knows nothing of our dropout
      expect_close(run.results(), expected, tolerance_of(dtype()), c.name + ", cuDNN");
    }
}

TEST_P(AttentionWaysTest, TilesAgreeWithTheCpuWhereTheyAreNotChosen) {
  Lab gpu(kGpu);
  for (const AttentionCase& each : cases_for_cudnn()) {
    const AttentionCase c = scaled(each);
    HeadsRun run(gpu, c, dtype());
    if (!cuda::fits_tiles(run.q.view)) continue;
    by_tiles(run);
    expect_close(run.results(), on_cpu(c), tolerance_of(dtype()), c.name);
    run.expect_others_untouched();
  }
}

INSTANTIATE_TEST_SUITE_P(Gpu, AttentionWaysTest, ::testing::Values(DType::bf16, DType::f16),
                         name_of_dtype);

}  // namespace
}  // namespace tessera::test
