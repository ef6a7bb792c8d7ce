// The f32 weight behind a bf16 weight, kept as what rounding took away: 16 bits beside the 16 of
// the value, which together are the f32 exactly.
#pragma once

#include "tessera/base/dtype.h"

namespace tessera {

struct SplitWeight {
  BFloat16 value;         ///< the nearest one; of two, the one further from zero
  std::int16_t low_bits;  ///< bits of the f32 less those of the value, as numbers
};

TESSERA_HOST_DEVICE inline SplitWeight split_weight(float weight) {
  const std::uint32_t bits = detail::float_bits(weight);
  SplitWeight split{BFloat16(), 0};
  if ((bits & 0x7fffffffu) > 0x7f800000u) {  // NaN: rounding could carry it over to zero
    split.value.bits = 0x7fc0u;
    return split;
  }
  split.value.bits = static_cast<std::uint16_t>((bits + 0x8000u) >> 16);
  split.low_bits = static_cast<std::int16_t>(bits & 0xffffu);
  return split;
}

TESSERA_HOST_DEVICE inline float joined_weight(BFloat16 value, std::int16_t low_bits) {
  const auto difference = static_cast<std::uint32_t>(static_cast<std::int32_t>(low_bits));
  return detail::float_from_bits((static_cast<std::uint32_t>(value.bits) << 16) + difference);
}

}  // namespace tessera
