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
      world_(std::move(world)) {
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
  split_data_context(options);
}

// Neighbours share, so that what moves most stays near.
void Mesh::split_data_context(const ParallelOptions& options) {
  Communicator& ranks = data_context();
  const bool sharded = options.sharding != Sharding::none;
  check(ranks.size() % options.sharding_instances == 0,
        "{} data-parallel ranks cannot form {} groups", ranks.size(), options.sharding_instances);
  const int size = sharded ? ranks.size() / options.sharding_instances : 1;
  sharding_group_ = ranks.split(ranks.rank() / size, ranks.rank() % size);
  replication_group_ = ranks.split(ranks.rank() % size, ranks.rank() / size);
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
  tensor_row_ = tensor_column_ = make_self_communicator();
  if (side == 0) return;
  check(ranks.size() == side * side, "{} tensor-parallel ranks cannot form a grid of {} x {}",
        ranks.size(), side, side);
  tensor_row_ = ranks.split(rank / side, rank % side);
  tensor_column_ = ranks.split(rank % side, rank / side);
}

}  // namespace tessera
