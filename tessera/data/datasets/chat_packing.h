// Puts whole conversations side by side into samples.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tessera {

/// Sample k holds members [starts[k], starts[k + 1]).
struct PackedChats {
  std::vector<std::int64_t> starts;   ///< [samples + 1]
  std::vector<std::int32_t> members;  ///< conversations, in each sample in the order of the data

  std::int64_t samples() const { return static_cast<std::int64_t>(starts.size()) - 1; }
  std::span<const std::int32_t> of(std::int64_t sample) const {
    const auto at = [&](std::int64_t k) {
      return static_cast<std::size_t>(starts[static_cast<std::size_t>(k)]);
    };
    return std::span(members).subspan(at(sample), at(sample + 1) - at(sample));
  }
};

/// Best-fit packing in the order of the data: each conversation goes into the sample with the least
/// remaining space that fits it, or into a new one. Sizes are at most `room`; empty ones are left
/// out.
PackedChats pack_chats(std::span<const std::int32_t> sizes, std::int64_t room);

}  // namespace tessera
