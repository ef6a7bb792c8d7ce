#include "tessera/parallel/mesh.h"

#include <utility>

namespace tessera {
namespace {

std::shared_ptr<Communicator> along(const RankGrid& grid, Communicator& world, Axis axis) {
  return world.split(grid.colour(world.rank(), axis), grid.coordinate(world.rank(), axis));
}

}  // namespace

Mesh::Mesh(const RankGrid& grid, std::shared_ptr<Communicator> world)
    : grid_(grid),
      world_(std::move(world)),
      tensor_(along(grid_, *world_, Axis::tensor)),
      data_(along(grid_, *world_, Axis::data)),
      pipeline_(along(grid_, *world_, Axis::pipeline)) {}

}  // namespace tessera
