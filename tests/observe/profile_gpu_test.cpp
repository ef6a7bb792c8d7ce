// A trace of training on a GPU: kernels and copies, each in the range that launched it, on the
// host's time line. Skipped where there is no GPU.
#include <gtest/gtest.h>

#include <set>

#include "tessera/observe/trace_tables.h"
#include "tests/cuda/on_gpu.h"
#include "tests/train/session_run.h"

namespace tessera {
namespace {

using test::kGpu;
using test::OnGpu;

constexpr int kBefore = 4;  // the last of them replay a graph
constexpr int kTraced = 2;
constexpr int kAfter = 3;  // they replay it again

struct TracedGpuRun {
  std::vector<TraceEvent> events;
  double seconds = 0;  ///< from start to stop
  std::vector<double> losses;
  test::Bits bits;
};

TracedGpuRun traced_run(const SessionOptions& options) {
  Session session(options, {0, 1, 2, make_self_communicator()});
  const double rate = 3e-4;
  session.optimizer().set_rates(session.context(), std::span(&rate, 1));
  test::RandomBatches batches(options);
  Steps steps(session, LossAverage::per_microbatch);
  const auto submit = [&](int count) {
    for (int i = 0; i < count; ++i)
      steps.submit([&]() -> const HostBatch& { return batches.next(); });
  };
  Trace& trace = *session.context().trace;
  TracedGpuRun run;
  submit(kBefore);
  trace.start();
  const auto start = std::chrono::steady_clock::now();
  submit(kTraced);
  run.events = trace.stop();
  run.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  submit(kAfter);
  for (const StepRecord& record : steps.collect()) run.losses.push_back(record.loss);
  run.bits = test::bits_of(session);
  return run;
}

class ProfileOnGpu : public OnGpu {
 protected:
  SessionOptions options() const { return test::wide_session("llama", kGpu, GetParam()); }
};

std::vector<TraceEvent> of_kind(const std::vector<TraceEvent>& events, TraceKind kind) {
  std::vector<TraceEvent> found;
  for (const TraceEvent& event : events)
    if (event.kind == kind) found.push_back(event);
  return found;
}

TEST_P(ProfileOnGpu, EveryKernelAndCopyCarriesTheRangeThatLaunchedIt) {
  const TracedGpuRun run = traced_run(options());
  std::set<std::string> ranges;
  std::size_t work = 0;
  for (const TraceEvent& event : run.events) {
    if (event.kind == TraceKind::range) continue;
    ++work;
    ASSERT_GE(event.parent, 0) << event.name << " has no range";
    const TraceEvent& range = run.events[static_cast<std::size_t>(event.parent)];
    EXPECT_EQ(range.kind, TraceKind::range);
    EXPECT_GE(event.start, range.start - 50) << event.name << " ran before it was launched";
    if (event.kind == TraceKind::kernel) ranges.insert(range.name);
  }
  EXPECT_GT(work, 100U);
  for (const char* name :
       {"embedding forward", "block forward", "attention forward", "mlp forward", "head",
        "block backward", "attention backward", "mlp backward", "optimizer"})
    EXPECT_TRUE(ranges.contains(name)) << "no kernel in " << name << "\n"
                                       << range_table(run.events, kTraced);
}

TEST_P(ProfileOnGpu, KernelsAndCopiesHaveTimesAndSizes) {
  const TracedGpuRun run = traced_run(options());
  const std::vector<TraceEvent> kernels = of_kind(run.events, TraceKind::kernel);
  ASSERT_FALSE(kernels.empty());
  double sum = 0;
  for (const TraceEvent& kernel : kernels) {
    sum += kernel.duration;
    EXPECT_FALSE(kernel.name.empty());
    EXPECT_LE(kernel.name.size(), 100U);
    EXPECT_GT(kernel.duration, 0) << kernel.name;
    EXPECT_GE(kernel.start, 0) << kernel.name;
    EXPECT_LE(kernel.start + kernel.duration, run.seconds * 1e6) << kernel.name;
    EXPECT_GT(kernel.grid[0] * kernel.block[0], 0) << kernel.name;
    EXPECT_GT(kernel.correlation, 0) << kernel.name;
  }
  EXPECT_LT(sum, run.seconds * 1e6);
  bool upload = false;
  for (const TraceEvent& copy : of_kind(run.events, TraceKind::copy)) {
    EXPECT_GT(copy.bytes, 0);
    upload |= copy.name.starts_with("Memcpy HtoD");
  }
  EXPECT_TRUE(upload) << "a step sends its batch to the GPU\n" << kernel_table(run.events, kTraced);
}

TEST_P(ProfileOnGpu, ChangesNoBit) {
  const TracedGpuRun traced = traced_run(options());
  const test::Trained plain = test::train(options(), kBefore + kTraced + kAfter);
  EXPECT_EQ(traced.losses, plain.losses);
  test::expect_equal_bits(traced.bits, plain.bits);
}

TEST_P(ProfileOnGpu, RecordsAgain) {
  const TracedGpuRun first = traced_run(options());
  const TracedGpuRun second = traced_run(options());
  EXPECT_EQ(of_kind(first.events, TraceKind::kernel).size(),
            of_kind(second.events, TraceKind::kernel).size());
}

INSTANTIATE_TEST_SUITE_P(Types, ProfileOnGpu, testing::Values(DType::f32, DType::bf16),
                         test::name_of_dtype);

}  // namespace
}  // namespace tessera
