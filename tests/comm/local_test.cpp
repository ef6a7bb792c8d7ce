// Threads as ranks: sums in rank order, errors that release everybody.
#include "tessera/comm/local.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tessera/base/check.h"
#include "tessera/launch/launch.h"

namespace tessera {
namespace {

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

TEST(Local, ABarrierIsNoReduction) {
  try {
    run_ranks(2, 1, [](Rank& rank) {
      Stream stream{Device{}};
      double x = 1;
      const View view(&x, DType::f64, {1});
      rank.world->all_reduce(view, ReduceOp::sum, stream);  // leaves an offer that looks right
      if (rank.rank == 0)
        rank.world->barrier();
      else
        rank.world->all_reduce(view, ReduceOp::sum, stream);
    });
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("ranks disagree"), std::string::npos) << error.what();
  }
}

TEST(Local, ARankThatDoesNotComeIsNamed) {
  LocalWorld world(3, std::chrono::seconds(1));
  std::vector<std::string> errors(2);
  std::vector<std::thread> threads;
  for (int r = 0; r < 2; ++r)
    threads.emplace_back([&, r] {
      try {
        world.communicator(r)->barrier();
      } catch (const Error& error) {
        errors[static_cast<std::size_t>(r)] = error.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::string& error : errors)
    EXPECT_NE(error.find("rank 2 did not come to barrier within 1 s"), std::string::npos) << error;
}

// Runs `late` on rank 1 after twice the time limit, and what the others call meanwhile; returns
// what rank 0 threw.
std::string error_of_waiting(const std::function<void(Communicator&)>& others,
                             const std::function<void(Communicator&)>& late) {
  LocalWorld world(2, std::chrono::seconds(1));
  std::string thrown;
  std::thread slow([&] {
    std::this_thread::sleep_for(std::chrono::seconds(2));
    try {
      late(*world.communicator(1));
    } catch (const Error& error) {
      world.abort(error.what());
    }
  });
  try {
    others(*world.communicator(0));
  } catch (const Error& error) {
    thrown = error.what();
  }
  slow.join();
  return thrown;
}

TEST(Local, ABarrierWithoutTimeoutWaitsAsLongAsItTakes) {
  const auto patiently = [](Communicator& group) { group.barrier_without_timeout(); };
  EXPECT_EQ(error_of_waiting(patiently, patiently), "");
  const std::string error =
      error_of_waiting(patiently, [](Communicator&) { fail("disk on fire"); });
  EXPECT_NE(error.find("disk on fire"), std::string::npos) << error;
}

// It finds nobody, instead of those who were there and have left.
TEST(Local, ARankThatComesTooLateIsAloneThere) {
  std::string of_the_late;
  const auto error = error_of_waiting([](Communicator& group) { group.barrier(); },
                                      [&](Communicator& group) {
                                        try {
                                          group.barrier();
                                        } catch (const Error& late) {
                                          of_the_late = late.what();
                                        }
                                      });
  EXPECT_NE(error.find("rank 1 did not come to barrier"), std::string::npos) << error;
  EXPECT_NE(of_the_late.find("rank 0 did not come to barrier"), std::string::npos) << of_the_late;
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
void expect_mismatch(const std::function<void(Rank&, Stream&)>& body, const char* part) {
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
  expect_mismatch(
      [&](Rank& rank, Stream& stream) {
        std::vector<float> own(8);
        rank.world->all_reduce(View(own.data(), DType::f32, {8}),
                               rank.rank == 0 ? ReduceOp::sum : ReduceOp::max, stream);
      },
      "all_reduce max");
  expect_mismatch(
      [&](Rank& rank, Stream& stream) {
        std::vector<float> own(8);
        rank.world->broadcast(View(own.data(), DType::f32, {8}), rank.rank, stream);
      },
      "broadcast from 1");
  expect_mismatch([&](Rank& rank, Stream& stream) { rank.world->recv(all, 7, stream); }, "rank 7");
  expect_mismatch(
      [&](Rank& rank, Stream& stream) {
        rank.world->send(all.reshape({4, 2}).slice(1, 0, 1), 0, stream);
      },
      "contiguous");
  expect_mismatch(
      [&](Rank& rank, Stream& stream) {
        std::vector<float> small(2);
        rank.world->all_to_all(View(small.data(), DType::f32, {2}), all, stream);
      },
      "all_to_all");
}

}  // namespace
}  // namespace tessera
