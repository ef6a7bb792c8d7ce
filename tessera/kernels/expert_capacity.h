// Which pairs of a row and an expert are kept if experts have limited capacity: formulas of all
// backends.
#pragma once

#include <cmath>
#include <cstdint>

#include "tessera/base/host_device.h"
#include "tessera/kernels/specs.h"

namespace tessera {

struct RowPlace {
  std::int64_t sample = 0;
  std::int64_t position = 0;
};

TESSERA_HOST_DEVICE inline RowPlace row_place(const SequenceRows& rows, std::int64_t row) {
  const std::int64_t of_rank = rows.seq / rows.context_ranks * rows.batch;
  const std::int64_t local = row % of_rank;
  const auto rank = static_cast<int>(row / of_rank);
  const SequenceRanges ranges = SequenceRanges::zigzag(rows.seq, rows.context_ranks, rank);
  return {local % rows.batch, ranges.at(local / rows.batch)};
}

/// Weights are compared without their last bits: rows that are equal in mathematics, such as those
/// of a token that is repeated at the start of a sequence, may be rounded differently in different
/// layouts. Rounded to nearest, so that 1/2, 1/4, ... are in the middle of what counts as equal.
TESSERA_HOST_DEVICE inline double capacity_key(double weight) { return rint(weight * 0x1p40); }
TESSERA_HOST_DEVICE inline float capacity_key(float weight) { return rintf(weight * 0x1p18f); }

/// The pairs of all rows, sorted by expert (Kernels::sort_by_expert).
template <class A>
struct SortedPairs {
  const A* weight;
  const std::int32_t* order;
  const std::int32_t* offsets;
  std::int64_t k;

  /// Whether pair number `pair` is among the first `spec.capacity` of its sequence and expert.
  TESSERA_HOST_DEVICE bool keeps(std::int64_t pair, std::int32_t expert, const CapacitySpec& spec,
                                 const SequenceRows& rows) const {
    const std::int32_t begin = offsets[expert], end = offsets[expert + 1];
    if (end - begin <= spec.capacity) return true;
    const RowPlace own = row_place(rows, pair / k);
    const A own_key = capacity_key(weight[pair]);
    std::int64_t before = 0;
    for (std::int32_t i = begin; i < end; ++i) {
      const std::int64_t other = order[i];
      const RowPlace place = row_place(rows, other / k);
      if (place.sample != own.sample) continue;
      const A key = capacity_key(weight[other]);
      const bool by_weight = spec.policy == DropPolicy::probs && key != own_key;
      before += by_weight ? key > own_key : place.position < own.position;
    }
    return before < spec.capacity;
  }
};

}  // namespace tessera
