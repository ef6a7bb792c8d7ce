// Where a rank stands: pure arithmetic, no communication. rank = tp + TP (cp + CP (dp + DP pp)), as
// in Megatron.
#pragma once

#include "tessera/parallel/parallel_options.h"

namespace tessera {

enum class Axis { tensor, context, data, pipeline };

struct RankCoordinates {
  int tensor = 0;
  int context = 0;
  int data = 0;
  int pipeline = 0;
};

class RankGrid {
 public:
  /// InputError unless the product of the degrees is `ranks`.
  RankGrid(const ParallelOptions& options, int ranks);

  int ranks() const { return tensor_ * context_ * data_ * pipeline_; }
  int size(Axis axis) const;
  RankCoordinates coordinates(int rank) const;
  int rank(const RankCoordinates& at) const;
  int coordinate(int rank, Axis axis) const;
  /// Ranks that differ only along `axis` share a colour.
  int colour(int rank, Axis axis) const;

 private:
  int tensor_, context_, data_, pipeline_;
};

}  // namespace tessera
