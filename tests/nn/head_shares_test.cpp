// How ranks that exchange positions for heads share these: every number of heads and ranks.
#include "tessera/spec/head_shares.h"

#include <gtest/gtest.h>

#include "tessera/base/check.h"

namespace tessera {
namespace {

void expect_shares(std::int64_t heads, std::int64_t groups, int ranks) {
  const std::vector<HeadShare> shares = share_heads(heads, groups, ranks);
  ASSERT_EQ(std::ssize(shares), ranks);
  const std::int64_t group = heads / groups;
  std::int64_t next = 0, next_kv = 0;
  for (const auto& [q, kv] : shares) {
    EXPECT_EQ(q.begin, next) << "each query head belongs to one rank";
    EXPECT_GE(q.count, 1);
    EXPECT_LE(q.count, shares.front().q.count) << "rank 0 has the most";
    EXPECT_EQ(kv.begin, q.begin / group) << "their key/value heads, and no others";
    EXPECT_EQ(kv.begin + kv.count, (q.begin + q.count - 1) / group + 1);
    if (groups >= ranks) {
      EXPECT_EQ(kv.begin, next_kv) << "no copies";
      EXPECT_LE(shares.front().kv.count - kv.count, 1);
    } else {
      EXPECT_EQ(kv.count, 1);
    }
    next = q.begin + q.count;
    next_kv = kv.begin + kv.count;
  }
  EXPECT_EQ(next, heads);
  EXPECT_EQ(next_kv, groups);
}

TEST(HeadShares, EveryHeadHasItsPlace) {
  for (std::int64_t heads = 1; heads <= 16; ++heads)
    for (std::int64_t groups = 1; groups <= heads; ++groups)
      for (int ranks = 1; heads % groups == 0 && ranks <= heads; ++ranks) {
        SCOPED_TRACE(testing::Message() << heads << " / " << groups << " on " << ranks);
        expect_shares(heads, groups, ranks);
        if (HasFailure()) return;
      }
}

TEST(HeadShares, RanksNeedAHeadEach) { EXPECT_THROW(share_heads(2, 2, 3), Error); }

}  // namespace
}  // namespace tessera
