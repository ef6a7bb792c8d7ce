// The coordinates of a rank: pure arithmetic, no communication. rank = tp + TP (cp + CP (dp + DP
// pp)), as in Megatron, or with --use-tp-pp-dp-mapping tp + TP (cp + CP (pp + PP dp)).
#pragma once

#include <array>
#include <span>

#include "tessera/options/parallel_options.h"

namespace tessera {

enum class Axis { tensor, context, data, pipeline };
inline constexpr std::array kAxes{Axis::tensor, Axis::context, Axis::data, Axis::pipeline};

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
  /// The first of the ranks that differ from `rank` along these axes only: the colour of their
  /// group.
  int first_along(int rank, std::span<const Axis> axes) const;

 private:
  int tensor_, context_, data_, pipeline_;
  bool pipeline_first_;  ///< neighbouring groups of tensor- and context-parallel ranks are stages
};

enum class ExpertAxis { tensor, expert, data, pipeline };

struct ExpertCoordinates {
  int tensor = 0;
  int expert = 0;
  int data = 0;
  int pipeline = 0;
};

/// The grid of experts on the same ranks, which shares the pipeline axis: rank = etp + ETP (ep + EP
/// (edp + EDP pp)), as in Megatron. EDP, the number of replicas of an expert, follows from the
/// number of ranks and may differ from the data-parallel size.
class ExpertGrid {
 public:
  /// InputError unless `ranks` is a multiple of ETP x EP x PP.
  ExpertGrid(const ParallelOptions& options, int ranks);

  int tensor() const { return tensor_; }
  int expert() const { return expert_; }
  int data() const { return data_; }
  int pipeline() const { return pipeline_; }
  ExpertCoordinates coordinates(int rank) const;
  int rank(const ExpertCoordinates& at) const;
  /// The first of the ranks that differ from `rank` along these axes only.
  int first_along(int rank, std::span<const ExpertAxis> axes) const;

 private:
  int tensor_, expert_, data_, pipeline_;
  bool pipeline_first_;
};

}  // namespace tessera
