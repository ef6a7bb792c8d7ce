#include "tessera/base/log.h"

#include <gtest/gtest.h>

#include <regex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace tessera {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

TEST(Log, ALineHasATimeALevelAndTheText) {
  ::testing::internal::CaptureStderr();
  log_info("loss {}", 2.5);
  log_warning("slow");
  log_line(LogLevel::error, "broken");
  const auto lines = lines_of(::testing::internal::GetCapturedStderr());
  ASSERT_EQ(lines.size(), 3u);
  const std::string time = R"(\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\] )";
  EXPECT_TRUE(std::regex_match(lines[0], std::regex(time + "loss 2.5")));
  EXPECT_TRUE(std::regex_match(lines[1], std::regex(time + "warning: slow")));
  EXPECT_TRUE(std::regex_match(lines[2], std::regex(time + "error: broken")));
}

TEST(Log, WhatAllRanksFindIsSaidOnce) {
  ::testing::internal::CaptureStderr();
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 4; ++rank)
    ranks.emplace_back([] { log_warning_once("{} is old", "a"); });
  for (std::thread& rank : ranks) rank.join();
  log_warning_once("{} is old", "b");
  EXPECT_EQ(lines_of(::testing::internal::GetCapturedStderr()).size(), 2u);
}

TEST(Log, LinesOfSeveralRanksDoNotMix) {
  ::testing::internal::CaptureStderr();
  std::vector<std::thread> ranks;
  for (const char letter : {'a', 'b', 'c', 'd'})
    ranks.emplace_back([letter] {
      for (int i = 0; i < 50; ++i) log_info("{}", std::string(200, letter));
    });
  for (std::thread& rank : ranks) rank.join();
  const auto lines = lines_of(::testing::internal::GetCapturedStderr());
  EXPECT_EQ(lines.size(), 200u);
  for (const std::string& line : lines) {
    const std::string text = line.substr(line.find(']') + 2);
    EXPECT_EQ(text, std::string(200, text[0]));
  }
}

}  // namespace
}  // namespace tessera
