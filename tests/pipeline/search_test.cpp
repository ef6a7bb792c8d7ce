// A schedule that was searched for: legal, within its memory, and at least as good as those that
// are known.
#include "tessera/pipeline/search.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tessera/pipeline/schedules.h"

namespace tessera {
namespace {

int most_held(const ScheduleReport& report) { return *std::ranges::max_element(report.in_flight); }

TEST(Search, IsAsGoodAsZeroBubbleH1ForEqualTimes) {
  for (const int ranks : {1, 2, 4, 8})
    for (const int m : {1, ranks, 2 * ranks + 1}) {
      const PipelineShape shape{ranks, m};
      const ScheduleReport report =
          check_schedules(shape, search_schedules(shape, {{}}, ranks), {{}});
      const ScheduleReport known = check_schedules(shape, make_schedules(shape, zero_bubble_h1));
      EXPECT_LE(report.bubble(), known.bubble() + 1e-9) << ranks << " ranks, " << m;
      EXPECT_LE(most_held(report), ranks);
    }
}

TEST(Search, KeepsToItsMemory) {
  const PipelineShape shape{4, 12};
  double before = 1e9;
  for (const int limit : {1, 2, 3, 4, 8}) {
    const ScheduleReport report = check_schedules(shape, search_schedules(shape, {{}}, limit));
    EXPECT_LE(most_held(report), limit);
    EXPECT_LE(report.bubble(), before + 1e-9) << "more memory is never worse";
    before = report.bubble();
  }
  EXPECT_LT(before, 0.1);
}

// The last stage takes longer, as one with a large vocabulary does.
TEST(Search, FitsStagesOfDifferentTimes) {
  const PipelineShape shape{4, 16};
  const StageTimes times = times_of(std::vector<double>{1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 1.5}, 4);
  const ScheduleReport report = check_schedules(shape, search_schedules(shape, times, 4), times);
  EXPECT_LE(most_held(report), 4);
  EXPECT_LE(report.bubble(),
            check_schedules(shape, make_schedules(shape, zero_bubble_h1), times).bubble() + 1e-9);
  EXPECT_NEAR(report.bubble(), report.least_bubble(), 0.02);
}

// It takes what it has when the budget is spent: something legal at least, and the same everywhere.
TEST(Search, KeepsToItsBudget) {
  const PipelineShape shape{6, 24};
  StageTimes times;
  for (int stage = 0; stage < shape.ranks; ++stage)
    times.push_back({1 + 0.3 * (stage % 3), 1 + 0.2 * (stage % 2), 1 - 0.1 * (stage % 4)});
  const int limit = 4;
  double before = 1e9;
  int shorter = 0;
  for (const std::int64_t budget : {1, 1'000'000}) {
    const std::vector<Schedule> lists = search_schedules(shape, times, limit, budget);
    const ScheduleReport report = check_schedules(shape, lists, times);
    EXPECT_LE(most_held(report), limit);
    EXPECT_LE(report.timeline.length, before);
    if (report.timeline.length < before) ++shorter;
    before = report.timeline.length;
    EXPECT_EQ(lists, search_schedules(shape, times, limit, budget));
  }
  EXPECT_EQ(shorter, 2) << "a larger budget finds shorter ones";
}

}  // namespace
}  // namespace tessera
