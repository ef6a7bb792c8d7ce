#include "tessera/train/data_waits.h"

#include <gtest/gtest.h>

#include "tests/train/trainer_run.h"

namespace tessera {
namespace {

TEST(DataWaits, TheRankThatWaitedLongestIsFound) {
  const test::TempFolder folder;
  Options options = test::ranks_options(folder / "run", 1);
  options.parallel.data = 4;
  run_ranks(4, 1, [&](Rank& rank) {
    Trainer trainer(options, print_config(options), rank);
    DataWaits waits(trainer.session(), 10);
    // Seconds of all ranks up to iteration 12, and up to 16.
    const double first[] = {0.1, 0.2, 0.8, 0.4};
    const double second[] = {8.1, 0.2, 0.8, 8.4};
    DataWaits::Longest longest = waits.since_last(first[rank.rank], 12);
    EXPECT_DOUBLE_EQ(longest.seconds, 0.4);
    EXPECT_EQ(longest.rank, 2);
    longest = waits.since_last(second[rank.rank], 16);
    EXPECT_DOUBLE_EQ(longest.seconds, 2.0);
    EXPECT_EQ(longest.rank, 0);
    longest = waits.since_last(second[rank.rank], 17);
    EXPECT_EQ(longest.seconds, 0);
    EXPECT_EQ(longest.rank, 0);
  });
}

TEST(DataWaits, OneRankIsItsOwnLongest) {
  const test::TempFolder folder;
  Trainer trainer = test::trainer_of(test::ranks_options(folder / "run", 1));
  DataWaits waits(trainer.session(), 0);
  const DataWaits::Longest longest = waits.since_last(3, 2);
  EXPECT_DOUBLE_EQ(longest.seconds, 1.5);
  EXPECT_EQ(longest.rank, 0);
}

TEST(DataWaits, OnlyALongWaitHoldsARunUp) {
  EXPECT_TRUE(is_held_up(0.5, 1.0));
  EXPECT_FALSE(is_held_up(0.1, 1.0));
  EXPECT_FALSE(is_held_up(0.001, 0.001));
}

}  // namespace
}  // namespace tessera
