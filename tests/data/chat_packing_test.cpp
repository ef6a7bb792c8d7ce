// Which conversations share a sample: each once and whole, with little left empty.
#include "tessera/data/datasets/chat_packing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace tessera {
namespace {

using Members = std::vector<std::int32_t>;

TEST(PackChats, EachOnceWholeAndTight) {
  const std::vector<std::int32_t> sizes{5, 6, 0, 3, 2, 4, 10, 1};
  const PackedChats packed = pack_chats(sizes, 10);
  // 5 | 6 | 3 to the 6 (tighter) | 2 to the 5 | 4 anew | 10 anew | 1 to the 6 and 3
  ASSERT_EQ(packed.samples(), 4);
  const auto of = [&](std::int64_t k) { return Members(packed.of(k).begin(), packed.of(k).end()); };
  EXPECT_EQ(of(0), (Members{0, 4}));
  EXPECT_EQ(of(1), (Members{1, 3, 7}));
  EXPECT_EQ(of(2), (Members{5}));
  EXPECT_EQ(of(3), (Members{6}));
  EXPECT_EQ(pack_chats({}, 10).samples(), 0);
}

TEST(PackChats, LeavesLittleEmpty) {
  std::mt19937 random(3);
  std::vector<std::int32_t> sizes(5000);
  for (std::int32_t& size : sizes) size = static_cast<std::int32_t>(1 + random() % 1000);
  const PackedChats packed = pack_chats(sizes, 1024);
  std::vector<int> seen(sizes.size(), 0);
  for (std::int64_t k = 0; k < packed.samples(); ++k) {
    std::int64_t sum = 0;
    for (const std::int32_t member : packed.of(k)) {
      sum += sizes[static_cast<std::size_t>(member)];
      ++seen[static_cast<std::size_t>(member)];
    }
    ASSERT_LE(sum, 1024);
    ASSERT_GT(sum, 0);
  }
  EXPECT_TRUE(std::all_of(seen.begin(), seen.end(), [](int each) { return each == 1; }));
  const auto all = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  EXPECT_LT(static_cast<double>(packed.samples()) * 1024, 1.1 * static_cast<double>(all));
}

}  // namespace
}  // namespace tessera
