// Description of a call (name, dtype, shape) that ranks exchange between processes, and the error
// message if ranks make different calls.
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

/// One rank's call. Fixed size, so that it can be sent as bytes.
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

/// Which size must be equal on all ranks, besides the call and the dtype.
enum class CallConsistency { elements, row_elements };

/// "ranks disagree in a collective: rank 0 calls ..., ranks 1, 2 call ...", or nothing if they
/// agree. Offers are in the order of the group; `job_ranks` holds the ranks of its members in the
/// whole job.
std::optional<std::string> find_mismatch(std::span<const CallOffer> offers,
                                         CallConsistency consistency,
                                         std::span<const int> job_ranks);

/// "ranks 0, 2", followed by their ranks in the whole job if those differ.
std::string format_ranks(std::vector<int> places, std::span<const int> job_ranks);

}  // namespace tessera
