// The ranks as a grid with one named communicator per axis. An axis of size one has an identity
// communicator.
#pragma once

#include <memory>

#include "tessera/comm/communicator.h"
#include "tessera/parallel/rank_grid.h"

namespace tessera {

class Mesh {
 public:
  /// All ranks of `world` call it together.
  Mesh(const RankGrid& grid, std::shared_ptr<Communicator> world);

  const RankGrid& grid() const { return grid_; }
  Communicator& world() const { return *world_; }
  Communicator& tensor() const { return *tensor_; }
  Communicator& data() const { return *data_; }
  Communicator& pipeline() const { return *pipeline_; }

 private:
  RankGrid grid_;
  std::shared_ptr<Communicator> world_;
  std::shared_ptr<Communicator> tensor_;
  std::shared_ptr<Communicator> data_;
  std::shared_ptr<Communicator> pipeline_;
};

}  // namespace tessera
