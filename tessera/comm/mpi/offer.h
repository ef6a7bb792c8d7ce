// What a rank brings to a call, as it travels between processes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "tessera/tensor/view.h"

namespace tessera {

struct MpiOffer {
  MpiOffer() = default;
  /// A call without memory, such as a barrier.
  explicit MpiOffer(const std::string& call);
  MpiOffer(const std::string& call, const ConstView& x);

  Shape shape() const;
  std::size_t bytes() const;
  /// "f32 [4, 8]", or "nothing" for a call without memory.
  std::string memory() const;
  /// "all_reduce sum with f32 [4, 8]"
  std::string to_string() const;

  std::array<char, 40> call{};
  DType dtype = DType::u8;
  int dimensions = -1;  ///< -1: no memory
  std::array<std::int64_t, Shape::kMaxRank> dims{};
  int colour = 0, key = 0, next_group = 0;  ///< of a split
};

}  // namespace tessera
