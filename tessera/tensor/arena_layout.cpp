#include "tessera/tensor/arena_layout.h"

#include "tessera/base/check.h"

namespace tessera {

View ArenaLayout::take(DType dtype, const Shape& shape) {
  constexpr std::size_t kAlignment = 64;
  const std::size_t begin = used_;
  const std::size_t bytes = static_cast<std::size_t>(shape.numel()) * element_size(dtype);
  used_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (measuring()) return {};
  check(used_ <= block_.bytes(), "a block of {} bytes was planned too small: {} needed",
        block_.bytes(), used_);
  return {block_.data<std::uint8_t>() + begin, dtype, shape};
}

}  // namespace tessera
