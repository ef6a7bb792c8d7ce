// How the ranks of a group share attention heads, when they exchange positions for heads.
#pragma once

#include <cstdint>
#include <vector>

namespace tessera {

/// Heads [begin, begin + count).
struct HeadRange {
  std::int64_t begin = 0;
  std::int64_t count = 0;
};

/// The query heads of a rank, and the key/value heads that they need.
struct HeadShare {
  HeadRange q, kv;
};

/// Each rank gets at least one query head. Ranks get whole key/value heads with all their query
/// heads if there are enough; otherwise several ranks hold a copy of a key/value head, with some of
/// its query heads each. Rank 0 has the largest share. There must be at least as many query heads
/// as ranks.
std::vector<HeadShare> share_heads(std::int64_t heads, std::int64_t groups, int ranks);

}  // namespace tessera
