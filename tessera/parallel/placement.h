// The placement of a parameter in the mesh: the grid that it is split over, which determines its
// replicas, and the ranks that each compute a partial gradient. A parameter carries this small
// value; Mesh provides the communicators. Pure: no ranks, no communication.
#pragma once

#include <array>
#include <string_view>

#include "tessera/options/parallel_options.h"

namespace tessera {

/// The grid that parameters are split over. Parameters of one class are laid out, reduced, sharded
/// and saved together; only placement.cpp and Mesh handle classes by name. To add a class, add a
/// value here, its size to placement_sizes, and its groups to Mesh.
enum class PlacementClass {
  dense,   ///< split over tensor x pipeline ranks, replicated on data x context ranks
  expert,  ///< split over expert-tensor x expert x pipeline ranks, replicated on expert-data ranks
  /// Not trained, but changed by rules of their own, such as an expert bias: in the accumulator's
  /// type, whole on every rank of a stage, never sharded.
  buffer,
};
inline constexpr std::array kPlacementClasses{PlacementClass::dense, PlacementClass::expert,
                                              PlacementClass::buffer};
std::string_view to_string(PlacementClass placement_class);

/// Ranks that hold the same values of a parameter and partial gradients of it, although they are
/// not data-parallel. The partial gradients are summed over them once per step, before the
/// data-parallel sums.
enum class GradientGroup {
  none,            ///< each rank's gradient is complete
  tensor,          ///< all tensor-parallel ranks
  kv_replication,  ///< ranks that hold the same key/value heads
  tensor_column,   ///< a column of the grid of tensor-parallel ranks
  expert_tensor,   ///< all ranks that share an expert's matrices
};
inline constexpr std::array kGradientGroups{
    GradientGroup::none, GradientGroup::tensor, GradientGroup::kv_replication,
    GradientGroup::tensor_column, GradientGroup::expert_tensor};

struct Placement {
  PlacementClass placement_class = PlacementClass::dense;
  GradientGroup gradient_group = GradientGroup::none;

  bool operator==(const Placement&) const = default;
};

/// The number of ranks with copies of a class's parameters, and the number of them that share
/// shards.
struct PlacementSizes {
  int data_parallel = 1;
  int sharding = 1;

  /// The number of ranks that hold the same shard.
  int replication() const { return data_parallel / sharding; }
};

/// InputError unless the copies form options.sharding_instances groups.
PlacementSizes placement_sizes(const ParallelOptions& options, PlacementClass placement_class);

}  // namespace tessera
