// What a rank brings to a call, as it travels between processes, and what is wrong when ranks bring
// different calls.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tessera/tensor/view.h"

namespace tessera {

struct CallOffer {
  CallOffer() = default;
  /// A call without memory, such as a barrier.
  explicit CallOffer(const std::string& call);
  CallOffer(const std::string& call, const ConstView& x);

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

/// What must be equal on all ranks besides the call and the type.
enum class CallConsistency { elements, row_elements };

/// "ranks disagree in a collective: rank 0 calls ..., ranks 1, 2 call ...", or nothing when they do
/// not. Offers are in the order of the group, whose ranks of the job `job_ranks` are.
std::optional<std::string> find_mismatch(std::span<const CallOffer> offers,
                                         CallConsistency consistency,
                                         std::span<const int> job_ranks);

/// "ranks 0, 2", and who that is in the whole job where the numbers differ.
std::string format_ranks(std::vector<int> places, std::span<const int> job_ranks);

}  // namespace tessera
