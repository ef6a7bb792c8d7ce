// A transformer block on the GPU, run directly and as a captured graph, against the same block on
// the CPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/cuda/block_run.h"
#include "tests/cuda/on_gpu.h"

namespace tessera::test {
namespace {

using Bytes = std::vector<std::uint8_t>;

// Rounding of the type, through about twenty ops.
double tolerance_of(DType dtype) {
  switch (dtype) {
    case DType::f64: return 1e-13;
    case DType::f32: return 2e-5;
    case DType::bf16: return 2e-2;
    default: return 3e-3;
  }
}

class BlockGraph : public OnGpu {
 protected:
  static std::vector<Bytes> bytes_of(BlockRun& run) {
    std::vector<Bytes> all;
    for (const auto& [name, result] : run.results()) all.push_back(run.lab.bytes(result));
    return all;
  }

  static void expect_equal_bits(BlockRun& run, const std::vector<Bytes>& expected,
                                const char* what) {
    const std::vector<Bytes> got = bytes_of(run);
    const auto results = run.results();
    for (std::size_t i = 0; i < results.size(); ++i)
      EXPECT_TRUE(got[i] == expected[i]) << results[i].first << ": " << what;
  }

  // The largest error goes into the test's report, under the case's name.
  void expect_close_to_cpu(BlockRun& gpu, BlockRun& cpu, const std::string& name) {
    double whole = 0;  // norm of all results, below which nothing is told apart
    for (const auto& [what, result] : cpu.results())
      whole = std::hypot(whole, norm_of(cpu.lab.read(result)));
    const auto got = gpu.results();
    const auto expected = cpu.results();
    double worst = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const double error = relative_error(gpu.lab.read(got[i].second),
                                          cpu.lab.read(expected[i].second), 1e-6 * whole);
      EXPECT_LE(error, tolerance_of(dtype())) << expected[i].first;
      worst = std::max(worst, error);
    }
    RecordProperty(name, fmt::format("{:.2e}", worst));
  }
};

// The first in this file, so that nothing was loaded or set up by an earlier launch.
TEST_P(BlockGraph, IsCapturedBeforeItEverRan) {
  BlockRun gpu(kGpu, gpt_like(), dtype());
  gpu.poison();
  const std::vector<Bytes> poisoned = bytes_of(gpu);
  Graph graph(gpu.lab.stream, [&] { gpu.step(); });
  expect_equal_bits(gpu, poisoned, "capturing must not run the work");
  graph.launch(gpu.lab.stream);
  BlockRun cpu({}, gpt_like(), dtype());
  cpu.step();
  expect_close_to_cpu(gpu, cpu, "gpt_like");
}

TEST_P(BlockGraph, WeightsAreThoseOfTheCpu) {
  for (const BlockCase& each : {gpt_like(), llama_like()}) {
    BlockRun gpu(kGpu, each, dtype());
    BlockRun cpu({}, each, dtype());
    for (std::size_t i = 0; i < cpu.parameters().size(); ++i)
      EXPECT_TRUE(gpu.lab.bytes(gpu.parameters()[i]->value()) ==
                  cpu.lab.bytes(cpu.parameters()[i]->value()))
          << each.name << ": " << cpu.parameters()[i]->name();
  }
}

TEST_P(BlockGraph, DirectAndReplayedAgreeWithTheCpu) {
  for (const BlockCase& each : {gpt_like(), llama_like(), qwen_like()}) {
    SCOPED_TRACE(each.name);
    BlockRun cpu({}, each, dtype());
    cpu.step();
    BlockRun gpu(kGpu, each, dtype());
    gpu.poison();
    gpu.step();
    expect_close_to_cpu(gpu, cpu, each.name);
    const std::vector<Bytes> direct = bytes_of(gpu);

    gpu.poison();
    Graph graph(gpu.lab.stream, [&] { gpu.step(); });
    graph.launch(gpu.lab.stream);
    expect_equal_bits(gpu, direct, "the graph must compute what direct calls do");
    // Not poisoned: gradients that add to what is there would double.
    graph.launch(gpu.lab.stream);
    expect_equal_bits(gpu, direct, "a second launch must repeat the first");
  }
}

// The experts' rows are counted on the device, so a graph has no sizes of the data that it was
// captured with. In 16-bit types a token close to the border of two experts may go to the other
// one.
TEST_P(BlockGraph, ExpertsAreReplayed) {
  BlockRun gpu(kGpu, moe_like(), dtype());
  gpu.poison();
  gpu.step();
  const std::vector<Bytes> direct = bytes_of(gpu);
  if (dtype() == DType::f32 || dtype() == DType::f64) {
    BlockRun cpu({}, moe_like(), dtype());
    cpu.step();
    expect_close_to_cpu(gpu, cpu, "moe_like");
  }
  gpu.poison();
  Graph graph(gpu.lab.stream, [&] { gpu.step(); });
  graph.launch(gpu.lab.stream);
  expect_equal_bits(gpu, direct, "the graph must compute what direct calls do");
}

INSTANTIATE_TEST_SUITE_P(Gpu, BlockGraph, every_float(), name_of_dtype);

}  // namespace
}  // namespace tessera::test
