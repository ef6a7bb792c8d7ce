#include "tessera/parallel/placement.h"

#include "tessera/base/check.h"
#include "tessera/parallel/rank_grid.h"

namespace tessera {
namespace {

int data_parallel_size(const ParallelOptions& options, PlacementClass placement_class) {
  switch (placement_class) {
    case PlacementClass::dense:
    case PlacementClass::buffer: return options.data * options.context;
    case PlacementClass::expert: return ExpertGrid(options, options.ranks()).data();
  }
  fail("unknown placement class");
}

}  // namespace

std::string_view to_string(PlacementClass placement_class) {
  switch (placement_class) {
    case PlacementClass::dense: return "dense";
    case PlacementClass::expert: return "expert";
    case PlacementClass::buffer: return "buffer";
  }
  fail("unknown placement class");
}

// As in Megatron, all classes have the same number of groups that hold all shards.
PlacementSizes placement_sizes(const ParallelOptions& options, PlacementClass placement_class) {
  const int copies = data_parallel_size(options, placement_class);
  if (options.sharding == Sharding::none || placement_class == PlacementClass::buffer)
    return {copies, 1};
  check_input(copies % options.sharding_instances == 0,
              "{} ranks hold copies of the {} parameters, which cannot form {} groups "
              "(--num-distributed-optimizer-instances)",
              copies, to_string(placement_class), options.sharding_instances);
  return {copies, copies / options.sharding_instances};
}

}  // namespace tessera
