// Which elements a dropout keeps: pure functions of global coordinates, the same on every device
// and layout.
#pragma once

#include <cstdint>

#include "tessera/base/rng.h"

namespace tessera {

/// Four words for the channels 4 block ... 4 block + 3 of one row of hidden activations.
TESSERA_HOST_DEVICE inline Philox4 hidden_dropout_words(RngKey key, std::int64_t sample,
                                                        std::int64_t position, std::int64_t block) {
  const auto s = static_cast<std::uint64_t>(sample);
  return philox(key,
                Philox4{{static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(position),
                         static_cast<std::uint32_t>(s >> 32), static_cast<std::uint32_t>(s)}});
}

/// Four words for the keys 4 block ... 4 block + 3 of one row of attention probabilities.
/// The head shares a counter word with the upper sample bits: heads stay below 2^16.
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
