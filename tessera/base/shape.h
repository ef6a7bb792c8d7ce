// A tensor's dimensions: at most six, kept inline.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace tessera {

class Shape {
 public:
  static constexpr int kMaxRank = 6;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> dims);
  explicit Shape(std::span<const std::int64_t> dims);

  int rank() const { return rank_; }
  /// Negative indices count from the end. Throws when out of range.
  std::int64_t operator[](int i) const { return dims_[index(i)]; }
  std::int64_t& operator[](int i) { return dims_[index(i)]; }
  /// The number of elements; 1 for a scalar. Throws when 63 bits cannot hold it.
  std::int64_t numel() const;
  std::span<const std::int64_t> dims() const {
    return {dims_.data(), static_cast<std::size_t>(rank_)};
  }
  std::string to_string() const;

  bool operator==(const Shape& other) const;

 private:
  std::size_t index(int i) const;

  std::array<std::int64_t, kMaxRank> dims_{};
  int rank_ = 0;
};

/// Zeros of the same rank: the offset of a box that is the whole tensor.
Shape zeros_like(const Shape& shape);

}  // namespace tessera
