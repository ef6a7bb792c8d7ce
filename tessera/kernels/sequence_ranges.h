// Maps the rows of a microbatch to positions of the sequence: one contiguous range, or two if the
// sequence is divided over the ranks of a context-parallel group.
//
// With R ranks the sequence is cut into 2R chunks, and rank r has the chunks r and 2R - 1 - r. For
// R = 2:
//   positions  [ 0 | 1 | 2 | 3 ]     rank 0: chunks 0, 3     rank 1: chunks 1, 2
// Under a causal mask an early chunk has little work and a late one much; each pair has the same.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "tessera/base/host_device.h"

namespace tessera {

/// Rows [row, row + length) are the positions [begin, begin + length).
struct PositionRange {
  std::int64_t row = 0;
  std::int64_t begin = 0;
  std::int64_t length = 0;
  std::int64_t end() const { return begin + length; }
  bool operator==(const PositionRange&) const = default;
};

/// The positions of the rows. Here a row is one step along the sequence; the B samples at one
/// position count as one row.
class SequenceRanges {
 public:
  /// One range: positions start, start + 1, ... for any number of rows.
  TESSERA_HOST_DEVICE SequenceRanges(std::int64_t start = 0)  // NOLINT(google-explicit-constructor)
      : first_(start) {}
  /// Two ranges: `length` rows from position `first` on, and all further rows from `second` on. Two
  /// adjacent ranges become one.
  TESSERA_HOST_DEVICE SequenceRanges(std::int64_t first, std::int64_t length, std::int64_t second)
      : first_(first), length_(first + length == second ? kAll : length), second_(second) {}

  /// The ranges of `rank` with the chunks described above. A single rank has the whole sequence.
  /// `seq` must be divisible by 2 `ranks`.
  TESSERA_HOST_DEVICE static SequenceRanges zigzag(std::int64_t seq, int ranks, int rank) {
    if (ranks == 1) return {};
    const std::int64_t chunk = seq / (2 * std::int64_t{ranks});
    return {chunk * rank, chunk, chunk * (2 * std::int64_t{ranks} - 1 - rank)};
  }

  /// The position of a row.
  TESSERA_HOST_DEVICE std::int64_t at(std::int64_t row) const {
    return row < length_ ? first_ + row : second_ + (row - length_);
  }
  /// The positions of the rows from `row` on, renumbered from 0.
  SequenceRanges from(std::int64_t row) const {
    if (row >= length_) return at(row);
    return length_ == kAll ? SequenceRanges(at(row))
                           : SequenceRanges(at(row), length_ - row, second_);
  }
  /// Calls f(PositionRange) for each of the one or two non-empty ranges of the first `rows` rows.
  template <class F>
  void for_each(std::int64_t rows, F&& f) const {
    const std::int64_t first = std::min(rows, length_);
    if (first > 0) f(PositionRange{0, first_, first});
    if (first < rows) f(PositionRange{first, second_, rows - first});
  }

  bool operator==(const SequenceRanges&) const = default;

 private:
  static constexpr std::int64_t kAll = std::numeric_limits<std::int64_t>::max();
  std::int64_t first_ = 0;
  std::int64_t length_ = kAll;  ///< rows of the first range; kAll: there is no second one
  std::int64_t second_ = 0;
};

}  // namespace tessera
