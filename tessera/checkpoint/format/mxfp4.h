// MXFP4 of the Open Compute Project: blocks of 32 numbers of 4 bits (sign, two bits of exponent,
// one of mantissa: 0, 0.5, 1, 1.5, 2, 3, 4 or 6) with a power of two in 8 bits, 2^(s - 127).
//
// A matrix [rows, columns] is two tensors of bytes: blocks [rows, columns / 32, 16], in which a
// byte has an even column in its lower half and the next one in its upper half, and scales [rows,
// columns / 32].
#pragma once

#include <cstdint>

#include "tessera/tensor/view.h"

namespace tessera {

constexpr std::int64_t kMxfp4Block = 32;       ///< numbers of a block
constexpr std::int64_t kMxfp4BlockBytes = 16;  ///< without its scale

/// Decodes whole blocks into `numbers` [rows, columns], f32 and contiguous: every value is exact.
void decode_mxfp4(const View& numbers, const ConstView& blocks, const ConstView& scales);

}  // namespace tessera
