// The ranges of training steps, on the CPU.
#include <gtest/gtest.h>

#include <map>

#include "tests/train/session_run.h"

namespace tessera {
namespace {

struct TracedRun {
  std::vector<TraceEvent> events;
  test::Bits bits;
};

// One step that is not recorded, then `steps` that are.
TracedRun traced(const SessionOptions& options, int steps,
                 const Rank& rank = {0, 1, 2, make_self_communicator()}) {
  Session session(options, rank);
  const double rate = 3e-4;
  session.optimizer().set_rates(session.context(), std::span(&rate, 1));
  test::RandomBatches batches(options);
  const auto next = [&]() -> const HostBatch& { return batches.next(); };
  Steps all(session, LossAverage::per_microbatch);
  all.submit(next);
  session.context().trace->start();
  for (int i = 0; i < steps; ++i) all.submit(next);
  TracedRun run{session.context().trace->stop(), {}};
  EXPECT_EQ(all.collect().size(), static_cast<std::size_t>(steps) + 1);
  run.bits = test::bits_of(session);
  return run;
}

using Counts = std::map<std::string, int>;

// "forward < step": how often a range lay directly in another one.
Counts counts_of(const std::vector<TraceEvent>& events) {
  Counts counts;
  for (const TraceEvent& event : events) {
    EXPECT_LT(event.parent, static_cast<std::int64_t>(events.size()));
    const std::string around =
        event.parent < 0 ? "" : " < " + events[static_cast<std::size_t>(event.parent)].name;
    counts[event.name + around] += 1;
  }
  return counts;
}

TEST(StepTrace, HasARangeForEachPhaseMicrobatchAndLayer) {
  SessionOptions options = test::tiny_session("gpt");  // 4 layers
  options.microbatches = 3;
  const Counts counts = counts_of(traced(options, 2).events);
  const Counts want{{"step", 2},
                    {"batch < step", 2},
                    {"forward < step", 6},
                    {"embedding forward < forward", 6},
                    {"block forward < forward", 24},
                    {"attention forward < block forward", 24},
                    {"mlp forward < block forward", 24},
                    {"head < forward", 6},
                    {"backward < step", 6},
                    {"final norm backward < backward", 6},
                    {"block backward < backward", 24},
                    {"attention backward < block backward", 24},
                    {"mlp backward < block backward", 24},
                    {"embedding backward < backward", 6},
                    {"gradient reduction and norm < step", 2},
                    {"optimizer < step", 2}};
  EXPECT_EQ(counts, want);
}

TEST(StepTrace, NumbersStepsMicrobatchesAndLayers) {
  SessionOptions options = test::tiny_session("llama");
  options.microbatches = 2;
  std::map<std::string, std::vector<std::int64_t>> numbers;
  for (const TraceEvent& event : traced(options, 1).events)
    numbers[event.name].push_back(event.number);
  using Numbers = std::vector<std::int64_t>;
  EXPECT_EQ(numbers["step"], Numbers({2})) << "the first one was not recorded";
  EXPECT_EQ(numbers["forward"], Numbers({0, 1}));
  EXPECT_EQ(numbers["backward"], Numbers({0, 1}));
  EXPECT_EQ(numbers["block forward"], Numbers({0, 1, 2, 3, 0, 1, 2, 3}));
  EXPECT_EQ(numbers["block backward"], Numbers({3, 2, 1, 0, 3, 2, 1, 0}));
  EXPECT_EQ(numbers["optimizer"], Numbers({-1}));
}

TEST(StepTrace, ShowsWhatIsComputedAgain) {
  SessionOptions options = test::tiny_session("llama");
  options.recompute = {RecomputeGranularity::full, RecomputeMethod::uniform, 2};
  const Counts counts = counts_of(traced(options, 1).events);
  EXPECT_EQ(counts.at("recompute < backward"), 2);
  EXPECT_EQ(counts.at("block forward < recompute"), 4);
  EXPECT_EQ(counts.at("block forward < forward"), 4);
}

// In each of four layers; backward has the own block before the first step.
TEST(StepTrace, ShowsTheStepsOfARing) {
  SessionOptions options = test::tiny_session("llama");
  options.parallel.context = 3;
  run_ranks(3, 1, [&](Rank& rank) {
    const Counts counts = counts_of(traced(options, 1, rank).events);
    EXPECT_EQ(counts.at("ring step < attention forward"), 4 * 3);
    EXPECT_EQ(counts.at("ring step backward < attention backward"), 4 * 2);
  });
}

TEST(StepTrace, ShowsASplitBackward) {
  SessionOptions options = test::tiny_session("llama");
  options.pipeline.schedule = ScheduleKind::zb_h1;
  const Counts counts = counts_of(traced(options, 1).events);
  EXPECT_EQ(counts.at("backward weights < step"), 1);
  EXPECT_EQ(counts.at("block backward weights < backward weights"), 4);
}

TEST(StepTrace, NestsInTime) {
  const std::vector<TraceEvent> events = traced(test::tiny_session("gpt"), 2).events;
  for (const TraceEvent& event : events) {
    EXPECT_EQ(event.kind, TraceKind::range);
    EXPECT_GE(event.duration, 0);
    if (event.parent < 0) continue;
    const TraceEvent& around = events[static_cast<std::size_t>(event.parent)];
    EXPECT_GE(event.start, around.start) << event.name;
    EXPECT_LE(event.start + event.duration, around.start + around.duration + 1e-6) << event.name;
  }
}

TEST(StepTrace, ChangesNoBit) {
  const SessionOptions options = test::tiny_session("qwen3");
  test::expect_equal_bits(traced(options, 3).bits, test::train(options, 4).bits);
}

TEST(StepTrace, IsEmptyWhenNothingWasRecorded) {
  const SessionOptions options = test::tiny_session("gpt");
  EXPECT_TRUE(traced(options, 0).events.empty());
}

}  // namespace
}  // namespace tessera
