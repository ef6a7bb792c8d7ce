#include "tessera/checkpoint/exact_weights.h"

#include <algorithm>
#include <vector>

#include "tessera/base/check.h"
#include "tessera/base/master_weight.h"
#include "tessera/checkpoint/format/convert.h"

namespace tessera {
namespace {

constexpr std::int64_t kConvertedElements = std::int64_t{1} << 20;  // elements

void check_like(const Checkpoint& checkpoint, const std::string& state, const std::string& name) {
  check_input(checkpoint.tensor(state).shape == checkpoint.tensor(name).shape,
              "{}: the shape {} is not that of the weight, {}", checkpoint.where(state),
              checkpoint.tensor(state).shape, checkpoint.tensor(name).shape);
}

// Value and low bits together, some rows at a time.
void read_joined(Checkpoint& checkpoint, const std::string& name, const Shape& offset,
                 const View& destination) {
  if (destination.numel() == 0) return;
  const std::int64_t rows = destination.dim(0);
  const std::int64_t step =
      std::max<std::int64_t>(1, kConvertedElements / (destination.numel() / rows));
  for (std::int64_t begin = 0; begin < rows; begin += step) {
    const View part = destination.slice(0, begin, std::min(step, rows - begin));
    Shape at = offset;
    at[0] += begin;
    const auto count = static_cast<std::size_t>(part.numel());
    std::vector<BFloat16> value(count);
    std::vector<std::int16_t> low_bits(count);
    std::vector<float> exact(count);
    checkpoint.read_box(name, at, part.shape(), {value.data(), DType::bf16, part.shape()});
    checkpoint.read_box(kLowBitsPrefix + name, at, part.shape(),
                        {low_bits.data(), DType::i16, part.shape()});
    for (std::size_t i = 0; i < count; ++i) exact[i] = joined_weight(value[i], low_bits[i]);
    convert_into(part, ConstView(exact.data(), DType::f32, part.shape()));
  }
}

}  // namespace

bool has_exact(const Checkpoint& checkpoint, const std::string& name) {
  return checkpoint.contains(kMasterPrefix + name) || checkpoint.contains(kLowBitsPrefix + name);
}

void read_exact(Checkpoint& checkpoint, const std::string& name, const Shape& offset,
                const View& destination) {
  if (checkpoint.contains(kMasterPrefix + name)) {
    check_like(checkpoint, kMasterPrefix + name, name);
    checkpoint.read_box(kMasterPrefix + name, offset, destination.shape(), destination);
  } else if (checkpoint.contains(kLowBitsPrefix + name)) {
    check_like(checkpoint, kLowBitsPrefix + name, name);
    read_joined(checkpoint, name, offset, destination);
  } else {
    checkpoint.read_box(name, offset, destination.shape(), destination);
  }
}

}  // namespace tessera
