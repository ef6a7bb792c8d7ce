// Tags of MPI messages. Each group has a number, unique among groups with a common pair of ranks,
// and three tags.
#pragma once

namespace tessera {

constexpr int kHeartbeatTag = 0;

struct MpiTags {
  explicit constexpr MpiTags(int group) : calls(1 + 3 * group), data(calls + 1), mail(calls + 2) {}
  int calls;  ///< the offers of a meeting
  int data;   ///< data of collectives
  int mail;   ///< send and recv
};

/// The largest group number for tags up to `largest_tag`.
constexpr int largest_group(int largest_tag) { return (largest_tag - 3) / 3; }

}  // namespace tessera
