// A GPU trains like the CPU: the same losses within its precision, the same bits when it does the
// same again, by a graph or not. Skipped where there is no GPU.
#include <gtest/gtest.h>

#include "tests/cuda/on_gpu.h"
#include "tests/support/expect_error.h"
#include "tests/train/session_run.h"
#include "tests/train/trainer_run.h"

namespace tessera {
namespace {

using test::How;
using test::kGpu;
using test::OnGpu;
using test::Trained;

class TrainingOnGpu : public OnGpu {};

Trained train(Device device, DType dtype, int steps, How how) {
  return test::train(test::wide_session("llama", device, dtype), steps, how);
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
  EXPECT_EQ(again.losses, graph.losses);
  test::expect_equal_bits(again.bits, graph.bits);
  EXPECT_EQ(calls.losses, graph.losses);
  test::expect_equal_bits(calls.bits, graph.bits);
}

// Windows of state go in and out beside updates, in a graph and without.
TEST_P(TrainingOnGpu, StateOnTheHostGivesTheSameBits) {
  SessionOptions options = test::wide_session("llama", kGpu, GetParam());
  const Trained whole = test::train(options, 6, How::graph);
  options.optimizer.cpu_offload = true;
  options.optimizer.offload_window = 10'000;
  for (const How how : {How::graph, How::one_by_one}) {
    const Trained offloaded = test::train(options, 6, how);
    EXPECT_EQ(offloaded.losses, whole.losses);
    test::expect_equal_bits(offloaded.bits, whole.bits);
  }
}

// FSDP units are gathered into buffers and let go, though one rank has all of them.
TEST_P(TrainingOnGpu, ShardsOfOneRankAreTheWhole) {
  SessionOptions options = test::wide_session("llama", kGpu, GetParam());
  const Trained whole = test::train(options, 8, How::graph);
  const double tolerance = GetParam() == DType::f64 ? 1e-9 : GetParam() == DType::f32 ? 1e-5 : 1e-2;
  for (const Sharding sharding : {Sharding::optimizer, Sharding::gradients, Sharding::parameters}) {
    options.parallel.sharding = sharding;
    const Trained graph = test::train(options, 8, How::graph);
    for (std::size_t i = 0; i < whole.losses.size(); ++i)
      EXPECT_NEAR(graph.losses[i], whole.losses[i], tolerance * whole.losses[i]) << i;
    const Trained calls = test::train(options, 8, How::one_by_one);
    EXPECT_EQ(calls.losses, graph.losses);
    test::expect_equal_bits(calls.bits, graph.bits);
  }
}

// What a graph changes, the host's memory of buffers must not outlive: evaluations between replayed
// steps see the weights of their step.
TEST_P(TrainingOnGpu, EvaluationsBetweenReplayedStepsSeeTheirWeights) {
  SessionOptions options = test::wide_session("gpt", kGpu, GetParam());
  options.model.tie_embeddings = true;
  options.parallel.sharding = Sharding::parameters;
  const auto losses = [&](bool eager) {
    Session session(options, {0, 1, 2, make_self_communicator()});
    const double rate = 1e-3;
    session.optimizer().set_rates(session.context(), std::span(&rate, 1));
    test::RandomBatches batches(options);
    const auto next = [&]() -> const HostBatch& { return batches.next(); };
    Steps steps(session, LossAverage::per_microbatch);
    std::vector<double> all;
    for (int i = 0; i < 4; ++i) {
      for (int step = 0; step < 3; ++step) steps.submit(next, eager);
      all.push_back(evaluate_step(session, next, LossAverage::per_microbatch).loss);
    }
    return all;
  };
  EXPECT_EQ(losses(false), losses(true));
}

INSTANTIATE_TEST_SUITE_P(Types, TrainingOnGpu, test::every_float(), test::name_of_dtype);

class GpuMemory : public OnGpu {};

TEST_P(GpuMemory, ASteadyStepAllocatesNothingAndWaitsForNothing) {
  const SessionOptions options = test::wide_session("llama", kGpu, GetParam());
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
  EXPECT_EQ(session.context().stream.synchronizations(), waits + 1) << "collecting waits once";
}

// How often a whole run without evaluation and checkpoints waited for its device.
std::int64_t waits_of_run(DType dtype, std::int64_t steps) {
  Options options = test::run_options("", kGpu);
  options.model.dtype = dtype;
  options.train.train_iters = steps;
  options.train.eval_iters = 0;
  testing::internal::CaptureStderr();  // on a terminal the live line would ask more often
  Trainer trainer = test::trainer_of(options);
  trainer.run();
  testing::internal::GetCapturedStderr();
  return trainer.session().context().stream.synchronizations();
}

TEST_P(GpuMemory, ALongRunWaitsNoMoreThanAShortOne) {
  EXPECT_EQ(waits_of_run(GetParam(), 25), waits_of_run(GetParam(), 5));
}

TEST_P(GpuMemory, OutOfMemorySaysWhatIsHeld) {
  Memory memory(kGpu);
  const Tensor held = memory.allocate(MemoryUse::optimizer, DType::u8, {3 << 20});
  test::expect_error(
      [&] { memory.allocate(MemoryUse::activations, DType::u8, {std::int64_t{1} << 45}); },
      {"out of memory", "for activations", "optimizer 3.0", "--micro-batch-size"});
}

INSTANTIATE_TEST_SUITE_P(Types, GpuMemory, testing::Values(DType::f32, DType::bf16, DType::f16),
                         test::name_of_dtype);

}  // namespace
}  // namespace tessera
