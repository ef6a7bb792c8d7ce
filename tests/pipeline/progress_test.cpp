// Ranks come to their end where a send is over only when it is received: all schedules, evaluation,
// and lists that were searched for. TESSERA_FULL goes through all of them, otherwise a sample.
#include "tessera/pipeline/progress.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "tessera/pipeline/schedules.h"
#include "tessera/pipeline/search.h"
#include "tests/pipeline/program_run.h"
#include "tests/support/expect_error.h"

namespace tessera {
namespace {

bool full() { return std::getenv("TESSERA_FULL") != nullptr; }

std::vector<PipelineProgram> programs_of(const PipelineShape& shape,
                                         const std::vector<Schedule>& lists) {
  std::vector<PipelineProgram> programs;
  for (int rank = 0; rank < shape.ranks; ++rank) programs.push_back(compile(shape, lists, rank));
  return programs;
}

void expect_end(const PipelineShape& shape, const std::vector<Schedule>& lists) {
  const std::vector<PipelineProgram> programs = programs_of(shape, lists);
  EXPECT_TRUE(test::ProgramRun(programs, true).ends());
  EXPECT_TRUE(test::ProgramRun(programs, false).ends());
}

// Of groups: Megatron's rule, no rest that is smaller than the pipeline.
bool is_legal(const PipelineShape& shape) {
  const int rest = shape.microbatches % shape.group;
  return shape.group <= shape.microbatches && (rest == 0 || rest >= shape.ranks);
}

std::vector<int> groups_of(int ranks, int microbatches) {
  if (!full()) return {ranks, 2 * ranks - 1, 4 * ranks, microbatches};
  std::vector<int> groups;
  for (int group = ranks; group <= microbatches; ++group) groups.push_back(group);
  return groups;
}

TEST(Progress, OfAllSchedules) {
  for (const int ranks : full() ? std::vector{2, 3, 4, 5, 6, 7, 8} : std::vector{2, 3, 4, 7})
    for (const int m :
         full() ? std::vector{1, 2, 5, 8, 16, 21, 32, 40} : std::vector{1, 5, 16, 32}) {
      SCOPED_TRACE(fmt::format("{} ranks, {} microbatches", ranks, m));
      const PipelineShape one{ranks, m}, vee{ranks, m, 2, StagePlacement::vee};
      for (const RankSchedule schedule : {gpipe, one_f_one_b, zero_bubble_h1, forward_only})
        expect_end(one, make_schedules(one, schedule));
      for (const RankSchedule schedule : {zero_bubble_v, forward_only})
        expect_end(vee, make_schedules(vee, schedule));
      for (const int chunks : {2, 3})
        for (const int group : groups_of(ranks, m)) {
          const PipelineShape shape{ranks, m, chunks, StagePlacement::loop, group};
          SCOPED_TRACE(fmt::format("{} chunks, groups of {}", chunks, group));
          expect_end(shape, make_schedules(shape, forward_only));
          if (is_legal(shape)) expect_end(shape, make_schedules(shape, interleaved));
        }
      if (testing::Test::HasFailure()) return;
    }
}

TEST(Progress, OfSearchedSchedules) {
  std::mt19937 random(1);
  const auto pick = [&](const std::vector<double>& from) { return from[random() % from.size()]; };
  for (int trial = 0; trial < (full() ? 400 : 40); ++trial) {
    const int ranks = 2 + static_cast<int>(random() % 3),
              m = 8 + 4 * static_cast<int>(random() % 3);
    const int limit = std::vector{ranks, 2 * ranks, 3 * ranks, m}[random() % 4];
    StageTimes times;
    for (int stage = 0; stage < ranks; ++stage) {
      const std::vector<double> some{.2, 1, 1, 2, 5};
      times.push_back({pick(some), pick(some), pick(some)});
    }
    const PipelineShape shape{ranks, m};
    SCOPED_TRACE(fmt::format("trial {}", trial));
    expect_end(shape, search_schedules(shape, times, limit));
  }
  const PipelineShape shape{3, 16};
  expect_end(shape, search_schedules(shape, {{.2, 1, 5}, {2, 1, .2}, {1, 1, 1}}, 16));
}

// Two places for messages that are sent, whatever the schedule, are too few: the first rank runs a
// whole group of the first chunk before it takes what comes back.
TEST(Progress, NeedsRoomForLargeGroups) {
  struct Case {
    int ranks, group;
  };
  for (const auto& [ranks, group] : {Case{2, 8}, Case{3, 6}, Case{4, 7}, Case{8, 11}}) {
    const PipelineShape shape{ranks, 2 * group, 2, StagePlacement::loop, group};
    const std::vector<Schedule> lists = make_schedules(shape, interleaved);
    std::vector<BoundaryChannel> channels = boundary_channels(shape, lists);
    EXPECT_EQ(order_of_steps(lists, channels).size(), lists.size() * lists.front().size());
    for (BoundaryChannel& channel : channels) channel.outgoing = 2;
    test::expect_error([&] { order_of_steps(lists, channels); },
                       {"wait for each other for ever", "to have room for another one"});
    std::vector<PipelineProgram> programs = programs_of(shape, lists);
    for (PipelineProgram& program : programs)
      for (PipelineProgram::Outgoing& to : program.outgoing) to.buffers = 2;
    EXPECT_FALSE(test::ProgramRun(programs, true).ends());
  }
}

// The room for messages is what schedules of equal times need, and no more than before.
TEST(Progress, RoomForMessages) {
  struct Case {
    PipelineShape shape;
    RankSchedule schedule;
    int outgoing, window;
  };
  const PipelineShape one{8, 32}, vee{8, 32, 2, StagePlacement::vee}, loop{8, 32, 4},
      groups{8, 64, 2, StagePlacement::loop, 32};
  for (const Case& c :
       {Case{one, gpipe, 2, 2}, Case{one, one_f_one_b, 2, 2}, Case{one, zero_bubble_h1, 2, 2},
        Case{vee, zero_bubble_v, 2, 8}, Case{loop, interleaved, 3, 2},
        Case{groups, interleaved, 28, 2}, Case{groups, forward_only, 25, 2}}) {
    int outgoing = 0, window = 0;
    for (const BoundaryChannel& channel :
         boundary_channels(c.shape, make_schedules(c.shape, c.schedule))) {
      outgoing = std::max(outgoing, channel.outgoing);
      window = std::max(window, channel.window);
    }
    EXPECT_EQ(outgoing, c.outgoing);
    EXPECT_EQ(window, c.window);
  }
}

// With two places, a fourth message waits until the second one is asked for: by the receiver's
// second forward, or its second backward.
TEST(Progress, KnowsWhatAStepWaitsFor) {
  const PipelineShape shape{2, 4};
  const std::vector<Schedule> lists = make_schedules(shape, gpipe);
  const std::vector<BoundaryChannel> channels = boundary_channels(shape, lists);
  EXPECT_EQ(last_waited_for(lists, channels, 0)[1], (std::vector{0, 1, 2, 3, 3, 3, 3, 4}));
  EXPECT_EQ(last_waited_for(lists, channels, 1)[0], (std::vector{-1, -1, -1, 0, 4, 5, 6, 7}));
}

}  // namespace
}  // namespace tessera
