// Where a parameter lives in the mesh: the grid that it is spread over, and with it who holds
// copies of it, and the ranks that each compute a part of its gradient. A parameter carries this
// small value; Mesh gives the communicators for it. Pure: no ranks, no communication.
#pragma once

#include <array>
#include <string_view>

#include "tessera/options/parallel_options.h"

namespace tessera {

/// The grid that parameters are spread over. Parameters of one class are laid out, reduced, sharded
/// and saved together; nobody outside of placement.cpp and Mesh knows a class by name. A new class
/// is a value here, its size in placement_sizes, and its groups in Mesh.
enum class PlacementClass {
  dense,   ///< parts on tensor x pipeline ranks, copies on data x context ranks
  expert,  ///< parts on expert-tensor x expert x pipeline ranks, copies on expert-data ranks
};
inline constexpr std::array kPlacementClasses{PlacementClass::dense, PlacementClass::expert};
std::string_view to_string(PlacementClass placement_class);

/// Ranks that hold the same values of a parameter, and other parts of its gradient, though they are
/// not data-parallel. The parts are summed over them, once per step, before data-parallel sums.
enum class GradientGroup {
  none,            ///< each rank's gradient is complete
  tensor,          ///< all tensor-parallel ranks
  kv_replication,  ///< those that hold the same key/value heads
  tensor_column,   ///< a column of the grid that they form
  expert_tensor,   ///< all that share an expert's matrices
};
inline constexpr std::array kGradientGroups{
    GradientGroup::none, GradientGroup::tensor, GradientGroup::kv_replication,
    GradientGroup::tensor_column, GradientGroup::expert_tensor};

struct Placement {
  PlacementClass placement_class = PlacementClass::dense;
  GradientGroup gradient_group = GradientGroup::none;

  bool operator==(const Placement&) const = default;
};

/// How many ranks hold copies of a class's parameters, and how many of these share what is sharded.
struct PlacementSizes {
  int data_parallel = 1;
  int sharding = 1;

  /// Ranks that hold the same shard.
  int replication() const { return data_parallel / sharding; }
};

/// InputError unless the copies form options.sharding_instances groups.
PlacementSizes placement_sizes(const ParallelOptions& options, PlacementClass placement_class);

}  // namespace tessera
