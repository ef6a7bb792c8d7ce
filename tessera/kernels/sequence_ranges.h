// Which positions of the sequence the rows of a microbatch are: one contiguous range, or two where
// ranks of a context-parallel group share the sequence.
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

/// Rows are counted along the sequence: those of all samples at one position are one.
class SequenceRanges {
 public:
  /// One range: the positions from `start` on, for as many rows as there are.
  SequenceRanges(std::int64_t start = 0) : first_(start) {}  // NOLINT(google-explicit-constructor)
  /// `length` rows from position `first` on, and all others from `second` on.
  SequenceRanges(std::int64_t first, std::int64_t length, std::int64_t second)
      : first_(first), length_(first + length == second ? kAll : length), second_(second) {}

  /// Cut into 2 `ranks` equal chunks, of which `rank` has number `rank` from the front and from the
  /// back: under a causal mask all ranks then have equal work. Of one rank the whole sequence.
  static SequenceRanges zigzag(std::int64_t seq, int ranks, int rank) {
    if (ranks == 1) return {};
    const std::int64_t chunk = seq / (2 * std::int64_t{ranks});
    return {chunk * rank, chunk, chunk * (2 * std::int64_t{ranks} - 1 - rank)};
  }

  /// The position of a row.
  TESSERA_HOST_DEVICE std::int64_t at(std::int64_t row) const {
    return row < length_ ? first_ + row : second_ + (row - length_);
  }
  /// Of the rows from a number on.
  SequenceRanges from(std::int64_t row) const {
    if (row >= length_) return at(row);
    return length_ == kAll ? SequenceRanges(at(row))
                           : SequenceRanges(at(row), length_ - row, second_);
  }
  /// Calls f(PositionRange) for each range that the first `rows` rows have a part in.
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
  std::int64_t length_ = kAll;  ///< of the first range
  std::int64_t second_ = 0;
};

}  // namespace tessera
