// The ranks as a grid with one named communicator per axis. An axis of size one has an identity
// communicator.
#pragma once

#include <memory>

#include "tessera/comm/communicator.h"
#include "tessera/parallel/rank_grid.h"

namespace tessera {

class Mesh {
 public:
  /// All ranks of `world` call it together. `head_copies` consecutive ranks of a tensor group hold
  /// the same key/value heads. If `side` is not 0, a tensor group forms a grid of `side` rows and
  /// columns, row by row.
  Mesh(const RankGrid& grid, std::shared_ptr<Communicator> world, int head_copies = 1,
       int side = 0);

  const RankGrid& grid() const { return grid_; }
  Communicator& world() const { return *world_; }
  Communicator& tensor() const { return *tensor_; }
  /// Those of the tensor group that hold the same key/value heads as this rank.
  Communicator& head_copies() const { return *head_copies_; }
  /// Those of the tensor group in this rank's row, and in its column: groups of one without a grid.
  Communicator& grid_row() const { return *grid_row_; }
  Communicator& grid_column() const { return *grid_column_; }
  Communicator& data() const { return *data_; }
  Communicator& pipeline() const { return *pipeline_; }

 private:
  RankGrid grid_;
  std::shared_ptr<Communicator> world_;
  std::shared_ptr<Communicator> tensor_;
  std::shared_ptr<Communicator> head_copies_;
  std::shared_ptr<Communicator> grid_row_;
  std::shared_ptr<Communicator> grid_column_;
  std::shared_ptr<Communicator> data_;
  std::shared_ptr<Communicator> pipeline_;
};

}  // namespace tessera
