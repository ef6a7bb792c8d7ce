// The ranks as a grid, with one communicator per axis, per pair of axes, per axis of the experts'
// grid, and per placement class. A group of one rank is an identity communicator, and groups with
// the same ranks share one communicator.
#pragma once

#include <array>
#include <memory>

#include "tessera/comm/communicator.h"
#include "tessera/parallel/placement.h"
#include "tessera/parallel/rank_grid.h"

namespace tessera {

/// The groups for the parameters of a placement class, as seen by this rank.
struct PlacementGroups {
  /// The data-parallel(-context) group: ranks with the same parameters and different tokens.
  /// Gradients are summed over it.
  std::shared_ptr<Communicator> data_parallel;
  /// The sharding group within it, and the replication group of this rank's shard.
  std::shared_ptr<Communicator> sharding;
  std::shared_ptr<Communicator> replication;
  /// Ranks of the same pipeline stage with other parts of the class's parameters.
  std::shared_ptr<Communicator> model;
};

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
  /// Within the context group: consecutive ranks that exchange heads, and the ring of ranks with
  /// the same heads (a2a+p2p). Groups of one without hierarchical sizes.
  Communicator& context_heads() const { return *context_heads_; }
  Communicator& context_ring() const { return *context_ring_; }
  Communicator& data() const { return *axes_[2]; }
  Communicator& pipeline() const { return *axes_[3]; }
  /// Ranks that differ along these two axes only, in the order of the world.
  Communicator& pair(Axis a, Axis b) const;

  /// The embedding group: the first and the last stage of the pipeline, which may share the word
  /// embeddings. Every other rank is a group by itself.
  Communicator& embedding_group() const { return *embedding_group_; }

  /// The groups of a placement class. Classes on the same ranks share communicators.
  const PlacementGroups& groups(PlacementClass placement_class) const {
    return placements_[static_cast<std::size_t>(placement_class)];
  }
  /// The group over which partial gradients are summed.
  Communicator& gradient_group(GradientGroup group) const;

  /// The tensor-parallel ranks of this rank's grid row and grid column; groups of one without 2-D
  /// tensor parallelism.
  Communicator& tensor_row() const { return *tensor_row_; }
  Communicator& tensor_column() const { return *tensor_column_; }

  /// Groups of the experts' grid: ranks that share each expert's matrices, ranks with other
  /// experts, both together, and ranks with copies of the same experts.
  Communicator& expert_tensor() const { return *expert_tensor_; }
  Communicator& expert() const { return *expert_; }
  Communicator& expert_tensor_expert() const { return *expert_tensor_expert_; }
  Communicator& expert_data() const { return *expert_data_; }

 private:
  using Group = std::shared_ptr<Communicator>;
  void split_tensor_group(int kv_replicas, int side);
  void split_context_group(int heads);
  void make_placements(const ParallelOptions& options);

  RankGrid grid_;
  ExpertGrid expert_grid_;
  Group world_;
  std::array<Group, kAxes.size()> axes_;
  std::array<std::array<Group, kAxes.size()>, kAxes.size()> pairs_;
  Group embedding_group_;
  std::array<PlacementGroups, kPlacementClasses.size()> placements_;
  Group self_;
  Group context_heads_;
  Group context_ring_;
  Group kv_replication_group_;
  Group tensor_row_;
  Group tensor_column_;
  Group expert_tensor_;
  Group expert_;
  Group expert_tensor_expert_;
  Group expert_data_;
};

}  // namespace tessera
