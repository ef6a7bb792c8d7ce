#include "tessera/parallel/mesh.h"

#include <utility>

#include "tessera/base/check.h"

namespace tessera {
namespace {

std::shared_ptr<Communicator> along(const RankGrid& grid, Communicator& world, Axis axis) {
  return world.split(grid.colour(world.rank(), axis), grid.coordinate(world.rank(), axis));
}

std::shared_ptr<Communicator> grid_row(Communicator& tensor, int side) {
  if (side == 0) return make_self_communicator();
  check(tensor.size() == side * side, "{} tensor-parallel ranks cannot form a grid of {} x {}",
        tensor.size(), side, side);
  return tensor.split(tensor.rank() / side, tensor.rank() % side);
}

std::shared_ptr<Communicator> grid_column(Communicator& tensor, int side) {
  if (side == 0) return make_self_communicator();
  return tensor.split(tensor.rank() % side, tensor.rank() / side);
}

}  // namespace

Mesh::Mesh(const RankGrid& grid, std::shared_ptr<Communicator> world, int head_copies, int side)
    : grid_(grid),
      world_(std::move(world)),
      tensor_(along(grid_, *world_, Axis::tensor)),
      head_copies_(tensor_->split(tensor_->rank() / head_copies, tensor_->rank() % head_copies)),
      grid_row_(tessera::grid_row(*tensor_, side)),
      grid_column_(tessera::grid_column(*tensor_, side)),
      data_(along(grid_, *world_, Axis::data)),
      pipeline_(along(grid_, *world_, Axis::pipeline)) {}

}  // namespace tessera
