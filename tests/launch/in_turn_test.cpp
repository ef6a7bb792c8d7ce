#include "tessera/launch/in_turn.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "tessera/launch/launch.h"

namespace tessera {
namespace {

// Three machines of two ranks each.
constexpr int kRanks = 6;

int turn_of(const Rank& rank) { return rank.rank == 0 ? 0 : rank.local_rank == 0 ? 1 : 2; }

TEST(InTurn, WithACacheRank0IsFirstAndThenOneOfEachMachine) {
  std::atomic<int> done[3] = {0, 0, 0};
  run_ranks(kRanks, 1, [&](Rank& rank) {
    rank.local_rank = rank.rank % 2;
    const int turn = turn_of(rank);
    const int built = built_in_turn(rank, true, [&] {
      EXPECT_EQ(done[0], turn > 0 ? 1 : 0);
      EXPECT_EQ(done[1], turn > 1 ? 2 : done[1].load());
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      ++done[turn];
      return rank.rank;
    });
    EXPECT_EQ(built, rank.rank);
    EXPECT_EQ(done[0] + done[1] + done[2], kRanks) << "nobody goes on before all are done";
  });
}

TEST(InTurn, WithoutACacheAllBuildAtOnce) {
  std::atomic<int> building = 0;
  run_ranks(kRanks, 1, [&](Rank& rank) {
    const bool met = built_in_turn(rank, false, [&] {
      ++building;
      const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
      while (building < kRanks && std::chrono::steady_clock::now() < limit)
        std::this_thread::yield();
      return building == kRanks;
    });
    EXPECT_TRUE(met);
  });
}

}  // namespace
}  // namespace tessera
