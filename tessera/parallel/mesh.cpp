#include "tessera/parallel/mesh.h"

#include <map>
#include <utility>
#include <vector>

#include "tessera/base/check.h"

namespace tessera {
namespace {

// Makes groups of the world, each set of them once: a set is known by the first member of every
// rank's group. All ranks know all sets, so that they agree on what is made.
class Groups {
 public:
  explicit Groups(const std::shared_ptr<Communicator>& world) : world_(world) {
    made_[firsts([](int) { return 0; })] = world;
    made_[firsts([](int rank) { return rank; })] = make_self_communicator();
  }

  template <class FirstOf>
  std::shared_ptr<Communicator> make(const FirstOf& first_of) {
    std::shared_ptr<Communicator>& group = made_[firsts(first_of)];
    if (!group) group = world_->split(first_of(world_->rank()), world_->rank());
    return group;
  }

 private:
  template <class FirstOf>
  std::vector<int> firsts(const FirstOf& first_of) const {
    std::vector<int> all;
    for (int rank = 0; rank < world_->size(); ++rank) all.push_back(first_of(rank));
    return all;
  }

  std::shared_ptr<Communicator> world_;
  std::map<std::vector<int>, std::shared_ptr<Communicator>> made_;
};

}  // namespace

Mesh::Mesh(const ParallelOptions& options, std::shared_ptr<Communicator> world, int kv_replicas)
    : grid_(options, world->size()),
      expert_grid_(options, world->size()),
      world_(std::move(world)),
      self_(make_self_communicator()) {
  Groups groups(world_);
  for (std::size_t a = 0; a < kAxes.size(); ++a) {
    const std::array axis{kAxes[a]};
    axes_[a] = groups.make([&](int rank) { return grid_.first_along(rank, axis); });
  }
  for (std::size_t a = 0; a < kAxes.size(); ++a)
    for (std::size_t b = 0; b < a; ++b) {
      const std::array both{kAxes[a], kAxes[b]};
      pairs_[a][b] = pairs_[b][a] =
          groups.make([&](int rank) { return grid_.first_along(rank, both); });
    }
  const auto experts = [&](std::initializer_list<ExpertAxis> along) {
    const std::vector<ExpertAxis> axes(along);
    return groups.make([&](int rank) { return expert_grid_.first_along(rank, axes); });
  };
  expert_tensor_ = experts({ExpertAxis::tensor});
  expert_ = experts({ExpertAxis::expert});
  expert_tensor_expert_ = experts({ExpertAxis::tensor, ExpertAxis::expert});
  expert_data_ = experts({ExpertAxis::data});
  const int last = pipeline().size() - 1;
  const bool inside = pipeline().rank() > 0 && pipeline().rank() < last;
  embedding_group_ =
      last < 2 ? axes_[3] : pipeline().split(inside ? pipeline().rank() : 0, pipeline().rank());
  split_tensor_group(kv_replicas, options.tensor_2d);
  split_context_group(options.context_heads());
  make_placements(options);
}

// Neighbours share, so that what moves most stays near.
void Mesh::make_placements(const ParallelOptions& options) {
  const auto make = [&](PlacementClass placement_class, Group data_parallel, Group model) {
    PlacementGroups& made = placements_[static_cast<std::size_t>(placement_class)];
    const int shards = placement_sizes(options, placement_class).sharding;
    for (const PlacementGroups& other : placements_)
      if (other.data_parallel == data_parallel) made = other;
    made.model = std::move(model);
    if (made.data_parallel) return;
    const int rank = data_parallel->rank();
    made.sharding = data_parallel->split(rank / shards, rank % shards);
    made.replication = data_parallel->split(rank % shards, rank / shards);
    made.data_parallel = std::move(data_parallel);
  };
  const auto data_context =
      pairs_[static_cast<std::size_t>(Axis::data)][static_cast<std::size_t>(Axis::context)];
  make(PlacementClass::dense, data_context, axes_[0]);
  make(PlacementClass::expert, expert_data_, expert_tensor_expert_);
  // Nothing is reduced or gathered over them, so they need no communicators of their own.
  placements_[static_cast<std::size_t>(PlacementClass::buffer)] = {data_context, self_,
                                                                   data_context, axes_[0]};
}

Communicator& Mesh::gradient_group(GradientGroup group) const {
  switch (group) {
    case GradientGroup::none: return *self_;
    case GradientGroup::tensor: return tensor();
    case GradientGroup::kv_replication: return *kv_replication_group_;
    case GradientGroup::tensor_column: return *tensor_column_;
    case GradientGroup::expert_tensor: return *expert_tensor_;
  }
  fail("unknown group of partial gradients");
}

Communicator& Mesh::pair(Axis a, Axis b) const {
  check(a != b, "a pair of one axis");
  return *pairs_[static_cast<std::size_t>(a)][static_cast<std::size_t>(b)];
}

// A grid's rows follow each other.
void Mesh::split_tensor_group(int kv_replicas, int side) {
  Communicator& ranks = tensor();
  const int rank = ranks.rank();
  kv_replication_group_ = ranks.split(rank / kv_replicas, rank % kv_replicas);
  tensor_row_ = tensor_column_ = self_;
  if (side == 0) return;
  check(ranks.size() == side * side, "{} tensor-parallel ranks cannot form a grid of {} x {}",
        ranks.size(), side, side);
  tensor_row_ = ranks.split(rank / side, rank % side);
  tensor_column_ = ranks.split(rank % side, rank / side);
}

void Mesh::split_context_group(int heads) {
  context_heads_ = context_ring_ = self_;
  if (heads == 1) return;
  Communicator& ranks = context();
  const int rank = ranks.rank();
  check(ranks.size() % heads == 0, "{} context-parallel ranks cannot form groups of {}",
        ranks.size(), heads);
  context_heads_ = ranks.split(rank / heads, rank % heads);
  context_ring_ = ranks.split(rank % heads, rank / heads);
}

}  // namespace tessera
