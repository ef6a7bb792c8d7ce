// Timelines as text and as SVG: every action is shown and legible, however different the times are.
#include "tessera/pipeline/picture.h"

#include <gtest/gtest.h>

#include <sstream>

#include "tessera/pipeline/schedules.h"

namespace tessera {
namespace {

Timeline timeline_for(int microbatches, const ActionTimes& times) {
  const PipelineShape shape{2, microbatches};
  return check_schedules(shape, make_schedules(shape, zero_bubble_h1), StageTimes{times}).timeline;
}

std::vector<std::string> lines_of(int microbatches, const ActionTimes& times) {
  std::istringstream text(timeline_text(timeline_for(microbatches, times), {}));
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

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

double width_of(const std::string& svg) {
  const std::string before = "viewBox=\"0 0 ";
  return std::stod(svg.substr(svg.find(before) + before.size()));
}

TEST(PictureSvg, FitsAPageByCuttingLongTimelinesIntoBands) {
  for (const int microbatches : {2, 8, 40}) {
    for (const double shortest : {0.01, 1.0}) {
      const std::string svg = timeline_svg(timeline_for(microbatches, {shortest, 1, 1}), {});
      EXPECT_LE(width_of(svg), 850) << microbatches << " microbatches";
      for (int i = 0; i < microbatches; ++i)
        EXPECT_TRUE(contains(svg, "<title>W" + std::to_string(i) + ":")) << i;
    }
  }
}

TEST(PictureSvg, HasDarkTextOnPaleBoxesAndALegendForThem) {
  Timeline timeline;
  timeline.ranks = {{{{ActionKind::forward, 0, 0}, 0, 1}, {{ActionKind::forward, 0, 1}, 1, 2}}};
  timeline.length = 2;
  const std::string svg = timeline_svg(timeline, {"", 2, ""});
  EXPECT_TRUE(contains(svg, "fill=\"#fff\">F0a</text>")) << svg;
  EXPECT_TRUE(contains(svg, "fill=\"#111\">F0b</text>")) << svg;
  EXPECT_TRUE(contains(svg, "pale, b: second stage")) << svg;
  EXPECT_FALSE(contains(timeline_svg(timeline, {}), "pale"));
}

}  // namespace
}  // namespace tessera
