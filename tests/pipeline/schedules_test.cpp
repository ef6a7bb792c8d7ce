#include "tessera/pipeline/schedules.h"

#include <gtest/gtest.h>

#include <map>

namespace tessera {
namespace {

// Runs all stages' lists against each other: an action waits for its neighbour's; nobody may wait
// for ever.
bool completes(const PipelineShape& shape, const std::vector<Schedule>& schedules) {
  std::map<std::pair<int, int>, bool> forward_done, backward_done;  // (stage, microbatch)
  std::vector<std::size_t> next(schedules.size(), 0);
  for (bool moved = true; moved;) {
    moved = false;
    for (int stage = 0; stage < shape.stages; ++stage) {
      const Schedule& list = schedules[static_cast<std::size_t>(stage)];
      std::size_t& at = next[static_cast<std::size_t>(stage)];
      if (at == list.size()) continue;
      const Action action = list[at];
      const bool is_forward = action.kind == ActionKind::forward;
      const bool ready =
          is_forward ? stage == 0 || forward_done[{stage - 1, action.microbatch}]
          : action.kind == ActionKind::backward_weight
              ? backward_done[{stage, action.microbatch}]
              : forward_done[{stage, action.microbatch}] &&
                    (stage == shape.stages - 1 || backward_done[{stage + 1, action.microbatch}]);
      if (!ready) continue;
      if (is_forward) forward_done[{stage, action.microbatch}] = true;
      if (action.kind == ActionKind::backward || action.kind == ActionKind::backward_input)
        backward_done[{stage, action.microbatch}] = true;
      ++at;
      moved = true;
    }
  }
  for (std::size_t s = 0; s < schedules.size(); ++s)
    if (next[s] != schedules[s].size()) return false;
  return true;
}

TEST(Schedules, CompleteWithoutDeadlockAndDoEverythingOnce) {
  for (const int stages : {1, 2, 3, 4, 8})
    for (const int microbatches : {1, 2, 3, 8, 17}) {
      const PipelineShape shape{stages, microbatches};
      for (const auto make : {one_f_one_b, one_f_one_b_split}) {
        std::vector<Schedule> schedules;
        for (int s = 0; s < stages; ++s) schedules.push_back(make(shape, s));
        EXPECT_TRUE(completes(shape, schedules))
            << stages << " stages, " << microbatches << " microbatches";
        std::map<std::pair<ActionKind, int>, int> counts;
        for (const Action& action : schedules[0]) ++counts[{action.kind, action.microbatch}];
        for (const auto& [what, count] : counts) EXPECT_EQ(count, 1);
      }
    }
}

TEST(Schedules, OneFOneBHoldsAsManyMicrobatchesAsStagesFollow) {
  const PipelineShape shape{4, 10};
  for (int s = 0; s < 4; ++s) EXPECT_EQ(slots_needed(one_f_one_b(shape, s)), 4 - s);
  EXPECT_EQ(slots_needed(one_f_one_b({4, 2}, 0)), 2);
  EXPECT_EQ(slots_needed(one_f_one_b_split({1, 5}, 0)), 5);
  EXPECT_EQ(slots_needed(forward_only({2, 9})), 1);
}

}  // namespace
}  // namespace tessera
