// A GPU trains like the CPU: the same losses within its precision, the same bits when it does the
// same again, by a graph or not. Skipped where there is no GPU.
#include <gtest/gtest.h>

#include <cstring>

#include "tessera/train/host_block.h"
#include "tests/cuda/on_gpu.h"
#include "tests/support/expect_error.h"
#include "tests/support/layout_run.h"
#include "tests/support/tiny_models.h"

namespace tessera {
namespace {

using test::kGpu;
using test::OnGpu;

SessionOptions options_for(Device device, DType dtype) {
  SessionOptions options = test::tiny_session("llama");
  options.model.dtype = dtype;
  options.model.hidden_size = 128;
  options.model.ffn_hidden_size = 256;
  options.model.num_attention_heads = 2;
  options.model.num_query_groups = 1;
  options.model.kv_channels = 64;
  options.model.vocab_size = 500;
  options.model.max_position_embeddings = 64;
  options.shape = {64, 4};
  options.microbatches = 2;
  options.optimizer.initial_loss_scale = 65536;
  options.device = device;
  return options;
}

class TrainingOnGpu : public OnGpu {};

struct Trained {
  std::vector<double> losses;
  std::vector<std::byte> weights;
};

enum class How { graph, one_by_one };

Trained train(Device device, DType dtype, int steps, How how) {
  const SessionOptions options = options_for(device, dtype);
  Session session(options, {0, 1, 2, make_self_communicator()});
  Context& context = session.context();
  const double rate = 3e-4;
  session.optimizer().set_rates(context, std::span(&rate, 1));
  std::int64_t sample = 0;
  HostBatch batch;
  const auto next = [&]() -> const HostBatch& {
    batch = test::random_batch(options.shape, options.model.vocab_size, sample);
    sample += options.shape.batch;
    return batch;
  };
  Steps all(session, LossAverage::per_microbatch);
  for (int i = 0; i < steps; ++i) {
    if (how == How::graph) {
      all.submit(next);
      continue;
    }
    all.submit_gradients(next);
    all.submit_update();
  }
  Trained result;
  for (const StepRecord& record : all.collect()) {
    EXPECT_EQ(record.failed, 0);
    result.losses.push_back(record.loss);
  }
  const HostBlock weights = downloaded(context, session.parameters().values());
  const auto* bytes = static_cast<const std::byte*>(weights.view().raw());
  result.weights.assign(bytes, bytes + weights.view().bytes());
  return result;
}

TEST_P(TrainingOnGpu, LossesAreTheCpus) {
  const Trained cpu = train(Device{}, GetParam(), 50, How::one_by_one);
  const Trained gpu = train(kGpu, GetParam(), 50, How::graph);
  const double tolerance = GetParam() == DType::f64 ? 1e-9 : GetParam() == DType::f32 ? 1e-4 : 1e-2;
  for (std::size_t i = 0; i < cpu.losses.size(); ++i)
    EXPECT_NEAR(gpu.losses[i], cpu.losses[i], tolerance * cpu.losses[i]) << i;
  EXPECT_LT(gpu.losses.back(), gpu.losses.front());
}

TEST_P(TrainingOnGpu, AGraphGivesTheBitsOfSingleCalls) {
  const Trained graph = train(kGpu, GetParam(), 8, How::graph);
  const Trained again = train(kGpu, GetParam(), 8, How::graph);
  const Trained calls = train(kGpu, GetParam(), 8, How::one_by_one);
  EXPECT_EQ(graph.losses, again.losses);
  EXPECT_TRUE(graph.weights == again.weights) << "two runs";
  EXPECT_EQ(graph.losses, calls.losses);
  EXPECT_TRUE(graph.weights == calls.weights) << "graph and calls";
}

INSTANTIATE_TEST_SUITE_P(Types, TrainingOnGpu, test::every_float(), test::name_of_dtype);

class GpuMemory : public OnGpu {};

TEST_P(GpuMemory, ASteadyStepAllocatesNothingAndWaitsForNothing) {
  const SessionOptions options = options_for(kGpu, GetParam());
  Session session(options, {0, 1, 2, make_self_communicator()});
  const HostBatch batch = test::random_batch(options.shape, options.model.vocab_size, 0);
  Steps steps(session, LossAverage::per_microbatch);
  const auto submit = [&] { steps.submit([&]() -> const HostBatch& { return batch; }); };
  for (int i = 0; i < 4; ++i) submit();
  const std::int64_t allocations = session.memory().counters().allocations;
  const std::int64_t waits = session.context().stream.synchronizations();
  for (int i = 0; i < 20; ++i) submit();
  EXPECT_EQ(session.memory().counters().allocations, allocations);
  EXPECT_EQ(session.context().stream.synchronizations(), waits);
  EXPECT_EQ(steps.collect().size(), 24U);
}

TEST_P(GpuMemory, OutOfMemorySaysWhatIsHeld) {
  Memory memory(kGpu);
  const Tensor held = memory.allocate(MemoryUse::optimizer, DType::u8, {3 << 20});
  test::expect_error(
      [&] { memory.allocate(MemoryUse::activations, DType::u8, {std::int64_t{1} << 45}); },
      {"out of memory", "for activations", "optimizer 3.0", "--micro-batch-size"});
}

INSTANTIATE_TEST_SUITE_P(Types, GpuMemory, testing::Values(DType::bf16), test::name_of_dtype);

}  // namespace
}  // namespace tessera
