// Timelines as text: a cell for each action, however different their times are.
#include "tessera/pipeline/picture.h"

#include <gtest/gtest.h>

#include <sstream>

#include "tessera/pipeline/schedules.h"

namespace tessera {
namespace {

std::vector<std::string> lines_of(int microbatches, const ActionTimes& times) {
  const PipelineShape shape{2, microbatches};
  const ScheduleReport report =
      check_schedules(shape, make_schedules(shape, zero_bubble_h1), StageTimes{times});
  std::istringstream text(timeline_text(report.timeline, {}));
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

TEST(Picture, HasACellForEachAction) {
  EXPECT_EQ(lines_of(2, {1, 1, 1}), (std::vector<std::string>{"rank 0   F0 F1 ...I0 W0 I1 W1 ",
                                                              "rank 1   ...F0 I0 F1 I1 W0 W1 "}));
}

TEST(Picture, IsNoLongerForVeryShortActions) {
  for (const double shortest : {1e-9, 1e-3, 1.0}) {
    const std::vector<std::string> lines = lines_of(2, {shortest, 1000, 1000});
    for (const std::string& line : lines) {
      EXPECT_LT(line.size(), 200u);
      for (const char* action : {"F0", "F1", "I0", "I1", "W0", "W1"})
        EXPECT_NE(line.find(action), std::string::npos) << action << " in " << line;
    }
  }
}

TEST(Picture, IsCutWhereItIsLong) {
  for (const std::string& line : lines_of(200, {1e-9, 1000, 1000})) {
    EXPECT_LT(line.size(), 200u);
    EXPECT_TRUE(line.ends_with(" ...")) << line;
  }
}

}  // namespace
}  // namespace tessera
