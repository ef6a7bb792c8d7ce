#include "tessera/base/shape.h"

#include <algorithm>

#include "tessera/base/check.h"

namespace tessera {

Shape::Shape(std::initializer_list<std::int64_t> dims)
    : Shape(std::span<const std::int64_t>(dims.begin(), dims.size())) {}

Shape::Shape(std::span<const std::int64_t> dims) : rank_(static_cast<int>(dims.size())) {
  check(dims.size() <= kMaxRank, "a shape has at most {} dimensions, got {}", kMaxRank,
        dims.size());
  std::copy(dims.begin(), dims.end(), dims_.begin());
  for (const std::int64_t d : dims) check(d >= 0, "negative dimension in shape {}", *this);
}

std::int64_t Shape::numel() const {
  std::int64_t n = 1;
  bool fits = true;
  for (const std::int64_t d : dims()) {
    if (d == 0) return 0;
    fits = fits && !__builtin_mul_overflow(n, d, &n);
  }
  check(fits, "a tensor of shape {} has too many elements to count in 63 bits", *this);
  return n;
}

std::string Shape::to_string() const {
  std::string text = "[";
  for (int i = 0; i < rank_; ++i)
    text += (i ? ", " : "") + std::to_string(dims_[static_cast<std::size_t>(i)]);
  return text + "]";
}

bool Shape::operator==(const Shape& other) const {
  return std::ranges::equal(dims(), other.dims());
}

Shape zeros_like(const Shape& shape) {
  Shape origin = shape;
  for (int i = 0; i < origin.rank(); ++i) origin[i] = 0;
  return origin;
}

std::size_t Shape::index(int i) const {
  const int j = i < 0 ? i + rank_ : i;
  check(j >= 0 && j < rank_, "dimension {} of a shape with {} dimensions", i, rank_);
  return static_cast<std::size_t>(j);
}

}  // namespace tessera
