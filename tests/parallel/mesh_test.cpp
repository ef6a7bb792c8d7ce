#include "tessera/parallel/mesh.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <set>
#include <vector>

#include "tessera/launch/launch.h"
#include "tests/support/tensors.h"

namespace tessera {
namespace {

using Members = std::vector<int>;

// The world's numbers of a group's ranks, in its order, by communication.
Members members_of(test::Lab& lab, Communicator& group, int world_rank) {
  const Tensor all = lab.empty(DType::i32, {group.size(), 1});
  const Tensor mine = lab.full(DType::i32, {1}, world_rank);
  group.all_gather(all, mine.view(), lab.stream)->wait(lab.stream);
  const auto values = lab.read(all);
  return {values.begin(), values.end()};
}

// The ranks that differ from `rank` in what `differs` may only.
template <class Grid, class Same>
Members expected_members(const Grid& grid, int ranks, int rank, const Same& same) {
  Members members;
  for (int other = 0; other < ranks; ++other)
    if (same(grid.coordinates(rank), grid.coordinates(other))) members.push_back(other);
  return members;
}

// Whether two ranks differ along these axes only.
bool differ_along(const RankCoordinates& a, const RankCoordinates& b, const std::set<Axis>& axes) {
  return (a.tensor == b.tensor || axes.contains(Axis::tensor)) &&
         (a.context == b.context || axes.contains(Axis::context)) &&
         (a.data == b.data || axes.contains(Axis::data)) &&
         (a.pipeline == b.pipeline || axes.contains(Axis::pipeline));
}

bool differ_along(const ExpertCoordinates& a, const ExpertCoordinates& b,
                  const std::set<ExpertAxis>& axes) {
  return (a.tensor == b.tensor || axes.contains(ExpertAxis::tensor)) &&
         (a.expert == b.expert || axes.contains(ExpertAxis::expert)) &&
         (a.data == b.data || axes.contains(ExpertAxis::data)) &&
         (a.pipeline == b.pipeline || axes.contains(ExpertAxis::pipeline));
}

ParallelOptions layout(int tensor, int context, int data, int pipeline, int expert = 1,
                       int expert_tensor = 0) {
  ParallelOptions options;
  options.tensor = tensor;
  options.context = context;
  options.data = data;
  options.pipeline = pipeline;
  options.expert = expert;
  options.expert_tensor = expert_tensor;
  return options;
}

void expect_groups(const ParallelOptions& options, const Rank& rank) {
  test::Lab lab;
  const Mesh mesh(options, rank.world);
  const auto expect = [&](Communicator& group, const auto& grid, const auto& axes) {
    const Members members =
        expected_members(grid, rank.size, rank.rank,
                         [&](const auto& a, const auto& b) { return differ_along(a, b, axes); });
    EXPECT_EQ(members_of(lab, group, rank.rank), members) << "on rank " << rank.rank;
  };
  const auto dense = [&](Communicator& group, const std::set<Axis>& axes) {
    expect(group, mesh.grid(), axes);
  };
  const auto experts = [&](Communicator& group, const std::set<ExpertAxis>& axes) {
    expect(group, mesh.expert_grid(), axes);
  };
  dense(mesh.tensor(), {Axis::tensor});
  dense(mesh.context(), {Axis::context});
  dense(mesh.data(), {Axis::data});
  dense(mesh.pipeline(), {Axis::pipeline});
  for (const Axis a : kAxes)
    for (const Axis b : kAxes)
      if (a != b) dense(mesh.pair(a, b), {a, b});
  experts(mesh.expert_tensor(), {ExpertAxis::tensor});
  experts(mesh.expert(), {ExpertAxis::expert});
  experts(mesh.expert_tensor_expert(), {ExpertAxis::tensor, ExpertAxis::expert});
  experts(mesh.expert_data(), {ExpertAxis::data});
}

TEST(Mesh, GroupsHoldTheRanksThatDifferAlongTheirAxesOnly) {
  for (const ParallelOptions& options :
       {layout(1, 1, 1, 1), layout(2, 1, 2, 2), layout(2, 2, 2, 2), layout(1, 3, 2, 1),
        layout(2, 1, 4, 1, 4, 1), layout(4, 1, 2, 2, 2, 2), layout(2, 2, 1, 2, 4, 1)}) {
    const int ranks = options.ranks();
    run_ranks(ranks, 1, [&](Rank& rank) { expect_groups(options, rank); });
  }
}

// a2a+p2p: consecutive context ranks exchange heads, and those with equal places form the rings.
TEST(Mesh, ContextRanksAreGroupsInARing) {
  using Groups = std::vector<Members>;
  struct Case {
    std::vector<int> sizes;
    Groups heads, rings;
  };
  for (const Case& c :
       {Case{{2, 2}, {{0, 1}, {2, 3}}, {{0, 2}, {1, 3}}},
        Case{{4, 2}, {{0, 1, 2, 3}, {4, 5, 6, 7}}, {{0, 4}, {1, 5}, {2, 6}, {3, 7}}},
        Case{{2, 4}, {{0, 1}, {2, 3}, {4, 5}, {6, 7}}, {{0, 2, 4, 6}, {1, 3, 5, 7}}}}) {
    const int context = c.sizes[0] * c.sizes[1];
    ParallelOptions options = layout(1, context, 1, 1);
    options.hierarchical_context = c.sizes;
    run_ranks(context, 1, [&](Rank& rank) {
      test::Lab lab;
      const Mesh mesh(options, rank.world);
      const auto group_in = [&](const Groups& groups) {
        return *std::ranges::find_if(
            groups, [&](const Members& each) { return std::ranges::count(each, rank.rank) > 0; });
      };
      EXPECT_EQ(members_of(lab, mesh.context_heads(), rank.rank), group_in(c.heads));
      EXPECT_EQ(members_of(lab, mesh.context_ring(), rank.rank), group_in(c.rings));
    });
  }
}

TEST(Mesh, GroupsOfTheSameRanksAreOne) {
  run_ranks(4, 1, [](Rank& rank) {
    const Mesh mesh(layout(2, 1, 2, 1), rank.world);
    EXPECT_EQ(&mesh.pair(Axis::tensor, Axis::data), &mesh.world());
    EXPECT_EQ(&mesh.pair(Axis::tensor, Axis::pipeline), &mesh.tensor());
    EXPECT_EQ(&mesh.expert_data(), &mesh.data());
  });
}

}  // namespace
}  // namespace tessera
