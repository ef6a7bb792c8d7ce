// Every schedule for every shape that it is for, proved by the checker: complete, ordered, free of
// deadlock, with the bubble and the memory of the formulas (docs/pipeline.md).
#include "tessera/pipeline/schedules.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "tessera/pipeline/check.h"
#include "tessera/pipeline/progress.h"
#include "tests/support/expect_error.h"

namespace tessera {
namespace {

constexpr double kExact = 1e-9;

bool full() { return std::getenv("TESSERA_FULL") != nullptr; }

// All of them take a moment; the sample keeps the small ones and those near 2p.
std::vector<int> microbatch_counts(int ranks) {
  std::vector<int> counts;
  for (int m = 1; m <= 64; ++m)
    if (full() || m <= 9 || m == 2 * ranks || m == 2 * ranks + 1 || m % 16 == 0)
      counts.push_back(m);
  return counts;
}

std::string text_of(const PipelineShape& s) {
  return fmt::format("{} ranks, {} microbatches, {} chunks, groups of {}", s.ranks, s.microbatches,
                     s.chunks, s.group);
}

// Calls visit(shape) for all shapes of one chunk.
template <class Visit>
void for_each_shape(const Visit& visit) {
  for (int ranks = 1; ranks <= 16; ++ranks)
    for (const int m : microbatch_counts(ranks)) {
      const PipelineShape shape{ranks, m};
      SCOPED_TRACE(text_of(shape));
      visit(shape);
      if (testing::Test::HasFailure()) return;
    }
}

ScheduleReport checked(const PipelineShape& shape, RankSchedule schedule) {
  const std::vector<Schedule> lists = make_schedules(shape, schedule);
  const std::vector<BoundaryChannel> channels = boundary_channels(shape, lists);
  for (const BoundaryChannel& channel : channels) {
    EXPECT_GE(channel.window, 1);
    EXPECT_GE(channel.outgoing, 2);
    // Two kinds of messages share a channel of two ranks, and those of a vee.
    const int most = std::max(2, shape.chunks * std::max(shape.ranks, shape.group) + 1);
    EXPECT_LE(channel.window,
              shape.ranks <= 2 || shape.placement == StagePlacement::vee ? most : 2);
    EXPECT_LE(channel.outgoing, most);
  }
  order_of_steps(lists, channels);
  return check_schedules(shape, lists);
}

double ratio(int a, int b) { return static_cast<double>(a) / b; }

TEST(Schedules, GPipeHoldsAllMicrobatches) {
  for_each_shape([](const PipelineShape& shape) {
    const ScheduleReport report = checked(shape, gpipe);
    EXPECT_NEAR(report.bubble(), ratio(shape.ranks - 1, shape.microbatches), kExact);
    for (const int held : report.in_flight) EXPECT_EQ(held, shape.microbatches);
  });
}

TEST(Schedules, OneFOneBHoldsAsManyAsRanksFollow) {
  for_each_shape([](const PipelineShape& shape) {
    const ScheduleReport report = checked(shape, one_f_one_b);
    EXPECT_NEAR(report.bubble(), ratio(shape.ranks - 1, shape.microbatches), kExact);
    EXPECT_NEAR(report.least_bubble(), report.bubble(), kExact);
    for (int r = 0; r < shape.ranks; ++r)
      EXPECT_EQ(report.in_flight[static_cast<std::size_t>(r)],
                std::min(shape.microbatches, shape.ranks - r));
  });
}

// Megatron's rule: groups of at least as many as ranks, and no smaller rest.
bool is_legal(const PipelineShape& shape) {
  const int rest = shape.microbatches % shape.group;
  return shape.group <= shape.microbatches && (rest == 0 || rest >= shape.ranks);
}

// Small ones, and those that need more room for messages.
std::vector<int> groups_of(const PipelineShape& shape) {
  const int p = shape.ranks;
  std::vector<int> groups{p, p + 1, 2 * p};
  for (const int group : {3 * p - 1, 4 * p, shape.microbatches})
    if (group > groups.back()) groups.push_back(group);
  return groups;
}

TEST(Schedules, InterleavedHasAPartOfTheBubble) {
  int count = 0;
  for_each_shape([&](const PipelineShape& one) {
    for (int chunks = 2; chunks <= 4; ++chunks)
      for (const int group : groups_of(one)) {
        const PipelineShape shape{one.ranks, one.microbatches, chunks, StagePlacement::loop, group};
        if (!is_legal(shape)) continue;
        SCOPED_TRACE(text_of(shape));
        const ScheduleReport report = checked(shape, interleaved);
        ++count;
        EXPECT_NEAR(report.bubble(), ratio(shape.ranks - 1, chunks * shape.microbatches), kExact);
        if (group != shape.ranks || shape.microbatches <= shape.ranks) continue;
        // p (1 + (p - 1) / (p v)) microbatches, in chunks.
        EXPECT_EQ(report.in_flight[0], chunks * shape.ranks + shape.ranks - 1);
        for (int r = 0; r < shape.ranks; ++r)
          EXPECT_EQ(report.in_flight[static_cast<std::size_t>(r)],
                    (chunks - 1) * shape.ranks + 2 * (shape.ranks - 1 - r) + 1);
      }
  });
  EXPECT_GT(count, 100);
}

// A third of 1F1B's bubble with as much memory. With fewer microbatches than fill it, the bubble is
// printed beside the least that can be.
TEST(Schedules, ZeroBubbleH1HasAThirdOfTheBubble) {
  for_each_shape([](const PipelineShape& shape) {
    const ScheduleReport report = checked(shape, zero_bubble_h1);
    const double third = ratio(shape.ranks - 1, 3 * shape.microbatches);
    for (const int held : report.in_flight)
      EXPECT_LE(held, std::min(shape.microbatches, shape.ranks));
    EXPECT_GE(report.bubble(), report.least_bubble() - kExact);
    const bool filled = shape.microbatches >= 2 * shape.ranks;
    EXPECT_TRUE(!filled || report.bubble() <= third + kExact) << report.bubble();
    if (report.bubble() > third + kExact)
      fmt::print("  zb-h1, {}: bubble {:.4f}, lower bound {:.4f}\n", text_of(shape),
                 report.bubble(), report.least_bubble());
  });
}

TEST(Schedules, ZeroBubbleVWaitsForItsFirstMicrobatchOnly) {
  for_each_shape([](const PipelineShape& one) {
    const PipelineShape shape{one.ranks, one.microbatches, 2, StagePlacement::vee};
    const ScheduleReport report = checked(shape, zero_bubble_v);
    for (const int held : report.in_flight)
      EXPECT_LE(held, std::min(2 * shape.microbatches, 2 * shape.ranks));
    EXPECT_GE(report.bubble(), report.least_bubble() - kExact);
    if (shape.microbatches < 2 * shape.ranks) return;
    EXPECT_NEAR(report.bubble(), ratio(shape.ranks - 1, 6 * shape.microbatches), kExact);
  });
}

TEST(Schedules, EvaluationHoldsOne) {
  for_each_shape([](const PipelineShape& one) {
    for (const StagePlacement placement : {StagePlacement::loop, StagePlacement::vee})
      for (const int chunks : {1, 2, 4}) {
        const PipelineShape shape{one.ranks, one.microbatches, chunks, placement};
        for (const int held : checked(shape, forward_only).in_flight) EXPECT_EQ(held, 1);
      }
  });
}

// ---- the checker finds what is wrong

std::vector<Schedule> good() { return make_schedules({2, 3}, one_f_one_b); }

TEST(ScheduleChecker, FindsWhatIsMissingRepeatedOrOutOfOrder) {
  const PipelineShape shape{2, 3};
  const auto expect = [&](const std::vector<Schedule>& lists, const char* text) {
    test::expect_error([&] { check_schedules(shape, lists); }, {text});
  };
  std::vector<Schedule> lists = good();
  lists[1].pop_back();
  expect(lists, "of 3 microbatches, 3 go forward, 2 get input gradients and 2 weight gradients");
  lists = good();
  lists[0].push_back(lists[0].front());
  expect(lists, "rank 0: the forward of microbatch 0 on chunk 0 is not in ascending order");
  lists = good();
  lists[1].insert(lists[1].begin(), {ActionKind::backward, 0});
  expect(lists, "rank 1: the backward of microbatch 0 on chunk 0 comes before its forward");
  lists = good();
  lists[0][0].microbatch = 7;
  expect(lists, "is of none that there is");
  lists = good();
  lists[0][0].chunk = 1;
  expect(lists, "is of none that there is");
  lists.pop_back();
  expect(lists, "1 lists for 2 ranks");
}

TEST(ScheduleChecker, FindsADeadlock) {
  // The first rank waits for a gradient that the second one gives only after another forward.
  const ActionKind f = ActionKind::forward, b = ActionKind::backward;
  const std::vector<Schedule> lists{{{f, 0}, {b, 0}, {f, 1}, {b, 1}},
                                    {{f, 0}, {f, 1}, {b, 0}, {b, 1}}};
  test::expect_error(
      [&] {
        check_schedules({2, 2}, lists);
      },
      {"wait for each other for ever", "rank 0"});
}

TEST(ScheduleChecker, KnowsWeightGradientsApart) {
  const ActionKind f = ActionKind::forward, i = ActionKind::backward_input,
                   w = ActionKind::backward_weight;
  test::expect_error(
      [&] {
        check_schedules({1, 1}, {{{f, 0}, {w, 0}, {i, 0}}});
      },
      {"comes before its input gradient"});
  EXPECT_EQ(
      check_schedules({1, 2}, {{{f, 0}, {i, 0}, {f, 1}, {i, 1}, {w, 0}, {w, 1}}}).in_flight[0], 2);
}

// More of them make no rank hold more.
TEST(Schedules, AreFilledBySoManyMicrobatches) {
  PipelineOptions options;
  for (const ScheduleKind kind : {ScheduleKind::one_f_one_b, ScheduleKind::interleaved,
                                  ScheduleKind::zb_h1, ScheduleKind::zb_v, ScheduleKind::search})
    for (const int ranks : {2, 3, 4, 8}) {
      options.schedule = kind;
      options.chunks = kind == ScheduleKind::interleaved || kind == ScheduleKind::zb_v ? 2 : 1;
      options.microbatch_group = kind == ScheduleKind::interleaved ? ranks + 1 : 0;
      const int enough = filling_microbatches(options, ranks);
      const auto held = [&](int microbatches) {
        std::vector<int> buffers;
        const PipelineShape shape = make_pipeline_shape(options, ranks, microbatches);
        for (const Schedule& schedule : training_schedules(options, shape))
          buffers.push_back(activation_buffers_needed(schedule));
        return buffers;
      };
      EXPECT_EQ(held(enough), held(3 * enough)) << flag_of(kind) << ", " << ranks << " ranks";
      EXPECT_NE(held(ranks - 1), held(enough)) << flag_of(kind) << ", " << ranks << " ranks";
    }
}

TEST(Schedules, HaveNames) {
  PipelineOptions options;
  EXPECT_EQ(schedule_title(options), "1F1B");
  options.chunks = 2;
  EXPECT_EQ(schedule_title(options), "interleaved 1F1B");
  options.schedule = ScheduleKind::zb_v;
  EXPECT_EQ(schedule_title(options), "ZB-V");
  EXPECT_EQ(flag_of(ScheduleKind::zb_v), "zb-v");
}

}  // namespace
}  // namespace tessera
