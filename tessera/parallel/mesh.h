// The ranks as a grid with one named communicator per axis, per pair of axes, and per axis of the
// experts' grid. A group of one is an identity communicator, and those groups that have the same
// ranks are one communicator, so that a layout pays only for what it spreads.
#pragma once

#include <array>
#include <memory>

#include "tessera/comm/communicator.h"
#include "tessera/parallel/rank_grid.h"

namespace tessera {

class Mesh {
 public:
  /// All ranks of `world` call it together. `kv_replicas` consecutive ranks of a tensor group hold
  /// the same key/value heads.
  Mesh(const ParallelOptions& options, std::shared_ptr<Communicator> world, int kv_replicas = 1);

  const RankGrid& grid() const { return grid_; }
  const ExpertGrid& expert_grid() const { return expert_grid_; }
  Communicator& world() const { return *world_; }
  Communicator& tensor() const { return *axes_[0]; }
  Communicator& context() const { return *axes_[1]; }
  Communicator& data() const { return *axes_[2]; }
  Communicator& pipeline() const { return *axes_[3]; }
  /// Ranks that differ along these two axes only, in the order of the world.
  Communicator& pair(Axis a, Axis b) const;

  /// The first and the last stage of the pipeline, which share a tied embedding; every other rank
  /// is a group by itself.
  Communicator& embedding_group() const { return *embedding_group_; }

  /// Ranks that have the same part of the model and other data.
  Communicator& data_context() const { return pair(Axis::data, Axis::context); }
  /// Those of them that share what is sharded, and those that have the same shard.
  Communicator& sharding_group() const { return *sharding_group_; }
  Communicator& replication_group() const { return *replication_group_; }

  /// Those of the tensor group that hold the same key/value heads as this rank.
  Communicator& kv_replication_group() const { return *kv_replication_group_; }
  /// Those of the tensor group in this rank's row, and in its column: groups of one without 2-D
  /// tensor parallelism.
  Communicator& tensor_row() const { return *tensor_row_; }
  Communicator& tensor_column() const { return *tensor_column_; }

  /// Of the experts' grid: those that share each expert's matrices, those that have other experts,
  /// both together, and those that have copies of the same.
  Communicator& expert_tensor() const { return *expert_tensor_; }
  Communicator& expert() const { return *expert_; }
  Communicator& expert_tensor_expert() const { return *expert_tensor_expert_; }
  Communicator& expert_data() const { return *expert_data_; }

 private:
  using Group = std::shared_ptr<Communicator>;
  void split_tensor_group(int kv_replicas, int side);
  void split_data_context(const ParallelOptions& options);

  RankGrid grid_;
  ExpertGrid expert_grid_;
  Group world_;
  std::array<Group, kAxes.size()> axes_;
  std::array<std::array<Group, kAxes.size()>, kAxes.size()> pairs_;
  Group embedding_group_;
  Group sharding_group_;
  Group replication_group_;
  Group kv_replication_group_;
  Group tensor_row_;
  Group tensor_column_;
  Group expert_tensor_;
  Group expert_;
  Group expert_tensor_expert_;
  Group expert_data_;
};

}  // namespace tessera
