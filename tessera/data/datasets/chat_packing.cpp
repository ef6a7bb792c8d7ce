#include "tessera/data/datasets/chat_packing.h"

#include <map>

#include "tessera/base/check.h"

namespace tessera {

PackedChats pack_chats(std::span<const std::int32_t> sizes, std::int64_t room) {
  std::vector<std::int32_t> sample_of(sizes.size(), -1);
  PackedChats packed{{0}, {}};
  std::multimap<std::int64_t, std::int32_t> open;  // samples by the room that is left
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 0) continue;
    check(sizes[i] <= room, "a conversation of {} tokens is to go into a sample of {}", sizes[i],
          room);
    std::int64_t left = room;
    const auto tightest = open.lower_bound(sizes[i]);
    if (tightest == open.end()) {
      sample_of[i] = static_cast<std::int32_t>(packed.samples());
      packed.starts.push_back(0);
    } else {
      left = tightest->first;
      sample_of[i] = tightest->second;
      open.erase(tightest);
    }
    left -= sizes[i];
    if (left > 0) open.emplace(left, sample_of[i]);
    ++packed.starts[static_cast<std::size_t>(sample_of[i]) + 1];
  }
  for (std::size_t k = 1; k < packed.starts.size(); ++k) packed.starts[k] += packed.starts[k - 1];
  packed.members.resize(static_cast<std::size_t>(packed.starts.back()));
  std::vector<std::int64_t> next(packed.starts.begin(), packed.starts.end() - 1);
  for (std::size_t i = 0; i < sizes.size(); ++i)
    if (sample_of[i] >= 0)
      packed.members[static_cast<std::size_t>(next[static_cast<std::size_t>(sample_of[i])]++)] =
          static_cast<std::int32_t>(i);
  return packed;
}

}  // namespace tessera
