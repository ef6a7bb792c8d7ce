// Threads as ranks: every collective, sums in rank order, errors that release everybody.
#include "tessera/comm/local.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "tessera/base/check.h"
#include "tessera/launch/launch.h"

namespace tessera {
namespace {

class LocalGroups : public testing::TestWithParam<int> {};

TEST_P(LocalGroups, EveryCollective) {
  const int n = GetParam();
  run_ranks(n, 1, [n](Rank& rank) {
    Stream stream{Device{}};
    Communicator& world = *rank.world;
    ASSERT_EQ(world.size(), n);
    std::vector<float> x(5, static_cast<float>(rank.rank + 1));
    world.all_reduce(View(x.data(), DType::f32, {5}), ReduceOp::sum, stream)->wait(stream);
    const int sum = n * (n + 1) / 2;
    EXPECT_EQ(x[4], static_cast<float>(sum));
    x[0] = static_cast<float>(rank.rank);
    world.all_reduce(View(x.data(), DType::f32, {1}), ReduceOp::max, stream)->wait(stream);
    EXPECT_EQ(x[0], static_cast<float>(n - 1));
    x[0] = static_cast<float>(rank.rank);
    world.all_reduce(View(x.data(), DType::f32, {1}), ReduceOp::avg, stream)->wait(stream);
    EXPECT_FLOAT_EQ(x[0], static_cast<float>(n - 1) / 2.0f);

    const std::vector<std::int32_t> mine{rank.rank, 10 * rank.rank};
    std::vector<std::int32_t> all(static_cast<std::size_t>(2 * n));
    world.all_gather(View(all.data(), DType::i32, {n, 2}), ConstView(mine.data(), DType::i32, {2}),
                     stream);
    for (int r = 0; r < n; ++r) EXPECT_EQ(all[static_cast<std::size_t>(2 * r + 1)], 10 * r);

    std::vector<double> whole(static_cast<std::size_t>(3 * n), 1.0 + rank.rank);
    std::vector<double> part(3);
    world.reduce_scatter(View(part.data(), DType::f64, {3}),
                         ConstView(whole.data(), DType::f64, {n, 3}), ReduceOp::sum, stream);
    EXPECT_EQ(part[2], n * (n + 1) / 2.0);

    std::vector<std::int64_t> sent(static_cast<std::size_t>(n)), got(static_cast<std::size_t>(n));
    for (int r = 0; r < n; ++r) sent[static_cast<std::size_t>(r)] = 100 * rank.rank + r;
    world.all_to_all(View(got.data(), DType::i64, {n}), ConstView(sent.data(), DType::i64, {n}),
                     stream);
    for (int r = 0; r < n; ++r) EXPECT_EQ(got[static_cast<std::size_t>(r)], 100 * r + rank.rank);

    std::int32_t word = rank.rank == n - 1 ? 7 : 0;
    world.broadcast(View(&word, DType::i32, {1}), n - 1, stream);
    EXPECT_EQ(word, 7);
    world.barrier();
  });
}

TEST_P(LocalGroups, NeighboursMaySendToEachOtherAtOnce) {
  const int n = GetParam();
  if (n == 1) return;
  run_ranks(n, 1, [n](Rank& rank) {
    Stream stream{Device{}};
    const int next = (rank.rank + 1) % n;
    const int before = (rank.rank + n - 1) % n;
    for (int i = 0; i < 20; ++i) {
      const double out = rank.rank + 100.0 * i;
      double in = -1;
      rank.world->send(ConstView(&out, DType::f64, {1}), next, stream)->wait(stream);
      rank.world->recv(View(&in, DType::f64, {1}), before, stream)->wait(stream);
      EXPECT_EQ(in, before + 100.0 * i);
    }
  });
}

TEST_P(LocalGroups, SplitByColourOrderedByKey) {
  const int n = GetParam();
  run_ranks(n, 1, [n](Rank& rank) {
    for (int again = 0; again < 3; ++again) {
      const std::shared_ptr<Communicator> part = rank.world->split(rank.rank % 2, -rank.rank);
      EXPECT_EQ(part->size(), (n + 1 - rank.rank % 2) / 2);
      const int behind = (n - 1 - rank.rank) / 2;  // higher ranks have smaller keys
      EXPECT_EQ(part->rank(), behind);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Sizes, LocalGroups, testing::Values(1, 2, 3, 4));

TEST(Local, SumsInRankOrderWhateverTheSize) {
  // In float the order shows: (1e8 + 1) - 1e8 is 0, 1e8 - 1e8 + 1 is 1.
  const float values[] = {1e8f, 1.0f, -1e8f};
  run_ranks(3, 1, [&](Rank& rank) {
    Stream stream{Device{}};
    std::vector<float> x(1000, values[rank.rank]);
    rank.world->all_reduce(View(x.data(), DType::f32, {1000}), ReduceOp::sum, stream);
    for (const float v : x) EXPECT_EQ(v, (values[0] + values[1]) + values[2]);
  });
}

TEST(Local, AFailingRankReleasesTheOthersAndIsNamed) {
  try {
    run_ranks(3, 1, [](Rank& rank) {
      if (rank.rank == 1) fail("disk on fire");
      rank.world->barrier();
    });
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("disk on fire"), std::string::npos) << error.what();
  }
}

TEST(Local, MismatchedCollectivesAreAnError) {
  EXPECT_THROW(run_ranks(2, 1,
                         [](Rank& rank) {
                           Stream stream{Device{}};
                           std::vector<float> x(8);
                           rank.world->all_reduce(View(x.data(), DType::f32, {4 + rank.rank}),
                                                  ReduceOp::sum, stream);
                         }),
               Error);
}

// Every rank must see the error, and name both calls.
void expect_disagreement(const std::function<void(Rank&, Stream&)>& body, const char* part) {
  try {
    run_ranks(2, 1, [&](Rank& rank) {
      Stream stream{Device{}};
      body(rank, stream);
    });
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(Local, CallsThatDifferAreNamed) {
  std::vector<float> x(8);
  const View all(x.data(), DType::f32, {8});
  expect_disagreement(
      [&](Rank& rank, Stream& stream) {
        std::vector<float> own(8);
        rank.world->all_reduce(View(own.data(), DType::f32, {8}),
                               rank.rank == 0 ? ReduceOp::sum : ReduceOp::max, stream);
      },
      "all_reduce max");
  expect_disagreement(
      [&](Rank& rank, Stream& stream) {
        std::vector<float> own(8);
        rank.world->broadcast(View(own.data(), DType::f32, {8}), rank.rank, stream);
      },
      "broadcast from 1");
  expect_disagreement([&](Rank& rank, Stream& stream) { rank.world->recv(all, 7, stream); },
                      "rank 7");
  expect_disagreement(
      [&](Rank& rank, Stream& stream) {
        rank.world->send(all.reshape({4, 2}).slice(1, 0, 1), 0, stream);
      },
      "contiguous");
  expect_disagreement(
      [&](Rank& rank, Stream& stream) {
        std::vector<float> small(2);
        rank.world->all_to_all(View(small.data(), DType::f32, {2}), all, stream);
      },
      "all_to_all");
}

}  // namespace
}  // namespace tessera
