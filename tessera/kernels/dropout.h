// Random words that decide which elements dropout keeps. They are pure functions of a key and of
// global coordinates (Philox is a counter-based generator), so every device and every parallel
// layout drops the same elements, and the backward regenerates the mask instead of storing it.
//
// An element is kept if its word >= dropout_bound(p) (base/rng.h). One Philox counter yields four
// words, which serve four consecutive channels or keys. Counter layouts, 32 bits each:
//   hidden     [channel / 4, position, sample high, sample low]
//   attention  [key / 4,     query,    sample high (16) | head (16), sample low]
// The two kinds may share a counter value; their keys differ.
#pragma once

#include <cstdint>

#include "tessera/base/rng.h"

namespace tessera {

/// Words for the channels 4 block ... 4 block + 3 of one row of hidden activations.
TESSERA_HOST_DEVICE inline Philox4 hidden_dropout_words(RngKey key, std::int64_t sample,
                                                        std::int64_t position, std::int64_t block) {
  const auto s = static_cast<std::uint64_t>(sample);
  return philox(key,
                Philox4{{static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(position),
                         static_cast<std::uint32_t>(s >> 32), static_cast<std::uint32_t>(s)}});
}

/// Words for the keys 4 block ... 4 block + 3 of one row of attention probabilities. The head
/// shares a counter word with the upper bits of the sample index, so heads must be below 2^16.
TESSERA_HOST_DEVICE inline Philox4 attention_dropout_words(RngKey key, std::int64_t sample,
                                                           std::int64_t head, std::int64_t query,
                                                           std::int64_t block) {
  const auto s = static_cast<std::uint64_t>(sample);
  const auto upper = static_cast<std::uint32_t>(s >> 32) << 16;
  return philox(key,
                Philox4{{static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(query),
                         upper + static_cast<std::uint32_t>(head), static_cast<std::uint32_t>(s)}});
}

}  // namespace tessera
