#include "tessera/parallel/rank_grid.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "tessera/parallel/sharding.h"
#include "tests/support/expect_error.h"

namespace tessera {
namespace {

ParallelOptions degrees(int tensor, int context, int data, int pipeline) {
  ParallelOptions options;
  options.tensor = tensor;
  options.context = context;
  options.data = data;
  options.pipeline = pipeline;
  return options;
}

TEST(RankGrid, TensorVariesFastestAndPipelineSlowest) {
  const RankGrid grid(degrees(2, 3, 4, 5), 120);
  EXPECT_EQ(grid.rank({1, 2, 3, 4}), 1 + 2 * (2 + 3 * (3 + 4 * 4)));
  for (int r = 0; r < grid.ranks(); ++r) EXPECT_EQ(grid.rank(grid.coordinates(r)), r);
}

TEST(RankGrid, RanksWithTheSameFirstDifferAlongTheAxisOnly) {
  const RankGrid grid(degrees(2, 1, 2, 2), 8);
  for (const Axis axis : {Axis::tensor, Axis::context, Axis::data, Axis::pipeline}) {
    std::map<int, std::set<int>> groups;
    for (int r = 0; r < 8; ++r)
      groups[grid.first_along(r, std::array{axis})].insert(grid.coordinate(r, axis));
    EXPECT_EQ(static_cast<int>(groups.size()), 8 / grid.size(axis));
    for (const auto& [first, members] : groups)
      EXPECT_EQ(static_cast<int>(members.size()), grid.size(axis));
  }
}

TEST(RankGrid, RefusesAWrongProduct) {
  test::expect_input_error([] { RankGrid(degrees(2, 1, 1, 2), 6); },
                           {"tensor 2", "pipeline 2", "4 ranks", "6"});
  test::expect_input_error([] { RankGrid(degrees(0, 1, 1, 1), 0); }, {"at least 1"});
}

ParallelOptions with_experts(ParallelOptions options, int expert, int expert_tensor) {
  options.expert = expert;
  options.expert_tensor = expert_tensor;
  return options;
}

TEST(ExpertGrid, ExpertTensorVariesFastestAndPipelineSlowest) {
  const ExpertGrid grid(with_experts(degrees(4, 3, 2, 5), 3, 2), 120);
  EXPECT_EQ(grid.data(), 4) << "120 / (2 x 3 x 5), not the data-parallel size 2";
  EXPECT_EQ(grid.rank({1, 2, 3, 4}), 1 + 2 * (2 + 3 * (3 + 4 * 4)));
  for (int r = 0; r < 120; ++r) EXPECT_EQ(grid.rank(grid.coordinates(r)), r);
}

// As Megatron lays out 16 ranks of TP 2, PP 2 with EP 4, ETP 1.
TEST(ExpertGrid, FoldsOverTheSameRanks) {
  const ExpertGrid grid(with_experts(degrees(2, 1, 4, 2), 4, 1), 16);
  const int expert[] = {0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3};
  const int data[] = {0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1};
  for (int r = 0; r < 16; ++r) {
    const ExpertCoordinates at = grid.coordinates(r);
    EXPECT_EQ(at.tensor, 0);
    EXPECT_EQ(at.expert, expert[r]);
    EXPECT_EQ(at.data, data[r]);
  }
}

TEST(ExpertGrid, SharesThePipelineWithTheOtherGrid) {
  for (const int expert_tensor : {1, 2, 4})
    for (const int expert : {1, 2, 6}) {
      const ParallelOptions options = with_experts(degrees(2, 2, 6, 3), expert, expert_tensor);
      const RankGrid dense(options, 72);
      const ExpertGrid experts(options, 72);
      for (int r = 0; r < 72; ++r)
        EXPECT_EQ(experts.coordinates(r).pipeline, dense.coordinates(r).pipeline);
    }
}

TEST(ExpertGrid, TakesTheTensorSizeUnlessItHasItsOwn) {
  EXPECT_EQ(ExpertGrid(with_experts(degrees(2, 1, 4, 1), 2, 0), 8).tensor(), 2);
  EXPECT_EQ(ExpertGrid(with_experts(degrees(2, 1, 4, 1), 2, 4), 8).tensor(), 4);
}

TEST(ExpertGrid, RefusesRanksThatAreNoMultiple) {
  test::expect_input_error([] { ExpertGrid(with_experts(degrees(2, 1, 4, 1), 3, 1), 8); },
                           {"expert tensor 1 x expert 3 x pipeline 1 = 3 ranks", "8"});
  test::expect_input_error([] { ExpertGrid(with_experts(degrees(2, 1, 1, 1), 4, 1), 2); }, {"= 4"});
  test::expect_input_error([] { ExpertGrid(with_experts(degrees(2, 1, 1, 1), 0, 1), 2); },
                           {"at least 1"});
}

TEST(Sharding, SharesCoverEverythingOnce) {
  for (const std::int64_t size : {1, 7, 51, 64})
    for (const int parts : {1, 2, 3, 8}) {
      std::int64_t next = 0;
      for (int i = 0; i < parts; ++i) {
        const Range share = balanced_range(size, parts, i);
        EXPECT_EQ(share.begin, next);
        next = share.end;
      }
      EXPECT_EQ(next, size);
    }
}

TEST(Sharding, APieceOutsideItsStorageIsRefused) {
  float storage[6] = {};
  const ShardPiece piece{{0, 0}, {2, 3}, 1, {3, 1}};
  EXPECT_THROW(piece.in(View(storage, DType::f32, {6})), Error);
}

}  // namespace
}  // namespace tessera
