#include "tessera/checkpoint/format/mxfp4.h"

#include <array>
#include <cmath>

#include "tessera/base/check.h"

namespace tessera {
namespace {

constexpr std::array<float, 8> kMagnitudes{0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};
constexpr int kScaleBias = 127;
constexpr int kScaleNan = 255;

float number(unsigned bits) {
  const float magnitude = kMagnitudes[bits & 7];
  return (bits & 8) != 0 ? -magnitude : magnitude;
}

}  // namespace

void decode_mxfp4(const View& numbers, const ConstView& blocks, const ConstView& scales) {
  const std::int64_t rows = numbers.dim(0), count = numbers.dim(1) / kMxfp4Block;
  check(numbers.dtype() == DType::f32 && numbers.shape() == Shape{rows, count * kMxfp4Block} &&
            blocks.shape() == Shape{rows, count, kMxfp4BlockBytes} &&
            scales.shape() == Shape{rows, count},
        "decode_mxfp4: {} from blocks {} and scales {}", numbers, blocks, scales);
  auto* out = numbers.data<float>();
  const auto* bytes = blocks.data<std::uint8_t>();
  for (std::int64_t i = 0; i < rows * count; ++i) {
    const int scale = scales.data<std::uint8_t>()[i];
    const float factor = scale == kScaleNan ? NAN : std::ldexp(1.0f, scale - kScaleBias);
    for (std::int64_t j = 0; j < kMxfp4BlockBytes; ++j) {
      const unsigned byte = *bytes++;
      *out++ = number(byte & 15) * factor;
      *out++ = number(byte >> 4) * factor;
    }
  }
}

}  // namespace tessera
