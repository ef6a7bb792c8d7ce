// What inspect says of a pipeline: a row for each of its ranks, with what that rank holds.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include "tessera/observe/inspect.h"
#include "tests/support/tiny_models.h"

namespace tessera {
namespace {

bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(InspectText, HasARowForEachPipelineRank) {
  SessionOptions options = test::tiny_session("llama");
  options.parallel.pipeline = 2;
  options.microbatches = 4;
  const std::string text = inspect_text(options, 1);
  EXPECT_TRUE(
      says(text, "memory of each pipeline rank (cpu, f32, 4 microbatches of 3 x 12 tokens)"))
      << text;
  for (int rank = 0; rank < 2; ++rank) {
    const MemoryCounters planned = plan_memory(options, 1, rank);
    const auto bytes = planned.bytes[static_cast<std::size_t>(MemoryUse::activations)];
    const auto row = text.find(fmt::format("\n  {}  ", rank));
    ASSERT_NE(row, std::string::npos) << text;
    const std::string line = text.substr(row + 1, text.find('\n', row + 1) - row - 1);
    EXPECT_TRUE(says(line, fmt::format(" {:.2f} KiB", static_cast<double>(bytes) / 1024))) << line;
  }
  // Two layers of 8512 each; the table of 51 x 32 there, the output layer and a norm here.
  EXPECT_TRUE(says(text, "  rank 0: elements of parameters: 18,656,")) << text;
  EXPECT_TRUE(says(text, "  rank 1: elements of parameters: 18,688,")) << text;
}

TEST(InspectText, OfOneRankHasALineForEachUse) {
  SessionOptions options = test::tiny_session("llama");
  const std::string text = inspect_text(options, 1);
  EXPECT_TRUE(
      says(text, "memory of one rank (cpu, f32, microbatch of 3 x 12 tokens)\n  parameters"))
      << text;
  EXPECT_TRUE(says(text, "\n  elements of parameters: 37,344,")) << text;
}

}  // namespace
}  // namespace tessera
