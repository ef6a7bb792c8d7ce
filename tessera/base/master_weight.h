// The f32 master weight of a bf16 weight, stored as the bf16 value and the low 16 bits of the f32:
// 4 bytes per weight instead of the 6 of a bf16 value with an f32 copy. Together they give the f32
// exactly:
//   bits(f32) = (bits(bf16) << 16) + low_bits, with low_bits signed
// The value is rounded, not truncated: if the upper half was rounded up, low_bits is negative.
#pragma once

#include "tessera/base/dtype.h"

namespace tessera {

struct SplitWeight {
  BFloat16 value;         ///< nearest bf16; ties away from zero
  std::int16_t low_bits;  ///< bits(f32) - (bits(value) << 16)
};

/// Adding half a unit to the bits rounds to nearest, also across exponents. NaN becomes the quiet
/// NaN.
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

/// The exact f32: the sign extension of low_bits subtracts if the value was rounded up.
TESSERA_HOST_DEVICE inline float joined_weight(BFloat16 value, std::int16_t low_bits) {
  const auto difference = static_cast<std::uint32_t>(static_cast<std::int32_t>(low_bits));
  return detail::float_from_bits((static_cast<std::uint32_t>(value.bits) << 16) + difference);
}

}  // namespace tessera
