// The tags of our messages. Groups have a number that no two groups with a common pair of ranks
// share, and three tags each.
#pragma once

namespace tessera {

constexpr int kHeartbeatTag = 0;

struct MpiTags {
  explicit constexpr MpiTags(int group) : calls(1 + 3 * group), data(calls + 1), mail(calls + 2) {}
  int calls;  ///< what each rank brings to a call
  int data;   ///< of collectives
  int mail;   ///< send and recv
};

/// The largest number that a group may have where tags go up to `largest_tag`.
constexpr int largest_group(int largest_tag) { return (largest_tag - 3) / 3; }

}  // namespace tessera
