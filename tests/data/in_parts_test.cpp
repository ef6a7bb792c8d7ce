#include "tessera/data/datasets/in_parts.h"

#include <gtest/gtest.h>

#include <atomic>
#include <utility>

#include "tessera/base/check.h"
#include "tests/support/expect_error.h"

namespace tessera {
namespace {

TEST(InParts, TheyFollowEachOtherAndDifferByAtMostOne) {
  for (const std::int64_t size : {0, 1, 6, 7, 100})
    for (const int parts : {1, 2, 7}) {
      std::vector<std::pair<std::int64_t, std::int64_t>> ranges(static_cast<std::size_t>(parts));
      in_parts(parts, size, [&](int part, std::int64_t begin, std::int64_t end) {
        ranges[static_cast<std::size_t>(part)] = {begin, end};
      });
      std::int64_t at = 0;
      for (const auto& [begin, end] : ranges) {
        EXPECT_EQ(begin, at);
        EXPECT_TRUE(end - begin == size / parts || end - begin == size / parts + 1);
        at = end;
      }
      EXPECT_EQ(at, size);
    }
}

TEST(InParts, AnErrorComesWhenAllAreDone) {
  std::atomic<int> done = 0;
  const auto work = [&](int part, std::int64_t, std::int64_t) {
    if (part == 3) fail_input("part 3 is bad");
    ++done;
  };
  test::expect_input_error([&] { in_parts(7, 7, work); }, {"part 3 is bad"});
  EXPECT_EQ(done, 6);
}

TEST(InParts, ShortArraysAreOnePart) {
  EXPECT_EQ(parts_of(0), 1);
  EXPECT_EQ(parts_of(1000), 1);
  EXPECT_LE(parts_of(std::int64_t{1} << 40), 16);
  EXPECT_EQ(parts_or(7, 1000), 7);
  EXPECT_EQ(parts_or(0, 1000), 1);
}

}  // namespace
}  // namespace tessera
