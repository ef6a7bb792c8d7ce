#include "tessera/spec/head_shares.h"

#include "tessera/base/check.h"

namespace tessera {
namespace {

// Part i of `count` things in `parts` parts whose sizes differ by at most one, larger ones first.
HeadRange part_of(std::int64_t count, std::int64_t parts, std::int64_t i) {
  const std::int64_t each = count / parts, more = count % parts;
  return {i * each + (i < more ? i : more), each + (i < more ? 1 : 0)};
}

}  // namespace

std::vector<HeadShare> share_heads(std::int64_t heads, std::int64_t groups, int ranks) {
  check(heads >= ranks, "{} query heads cannot be shared by {} ranks", heads, ranks);
  const std::int64_t group = heads / groups;
  std::vector<HeadShare> shares;
  if (groups >= ranks) {
    for (int rank = 0; rank < ranks; ++rank) {
      const HeadRange kv = part_of(groups, ranks, rank);
      shares.push_back({{kv.begin * group, kv.count * group}, kv});
    }
    return shares;
  }
  for (std::int64_t kv = 0; kv < groups; ++kv) {
    // The last key/value heads have more holders, so that rank 0 has the largest share.
    const std::int64_t holders = part_of(ranks, groups, groups - 1 - kv).count;
    for (std::int64_t i = 0; i < holders; ++i) {
      const HeadRange q = part_of(group, holders, i);
      shares.push_back({{kv * group + q.begin, q.count}, {kv, 1}});
    }
  }
  return shares;
}

}  // namespace tessera
