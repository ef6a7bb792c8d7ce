// Cores dealt out to ranks, and threads tied to them.
#include "tessera/launch/cores.h"

#include <gtest/gtest.h>
#include <omp.h>
#include <sched.h>

#include <algorithm>
#include <barrier>
#include <thread>
#include <vector>

namespace tessera {
namespace {

// Where the calling thread may run.
std::vector<int> allowed() {
  cpu_set_t set;
  CPU_ZERO(&set);
  EXPECT_EQ(sched_getaffinity(0, sizeof(set), &set), 0);
  std::vector<int> all;
  for (int i = 0; i < CPU_SETSIZE; ++i)
    if (CPU_ISSET(i, &set)) all.push_back(i);
  return all;
}

void allow(const std::vector<int>& some) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int i : some) CPU_SET(i, &set);
  ASSERT_EQ(sched_setaffinity(0, sizeof(set), &set), 0);
}

TEST(Cores, SharesAreContiguousAndTakeEverything) {
  for (const int cores : {1, 2, 5, 8, 96})
    for (const int count : {1, 2, 3, 5, 8}) {
      int next = 0;
      for (int i = 0; i < count; ++i) {
        const CoreRange range = range_of_share(cores, {i, count});
        EXPECT_EQ(range.begin, next);
        EXPECT_GE(range.end - range.begin, cores / count);
        EXPECT_LE(range.end - range.begin, cores / count + 1);
        next = range.end;
      }
      EXPECT_EQ(next, cores);
    }
}

TEST(Cores, RanksOfAMachineShareWhatIsEqual) {
  const std::vector<std::string> places{"a 0-3", "b 0-3", "a 0-3", "a 4-7", "a 0-3"};
  const auto share = [&](int rank) {
    const CoreShare found = share_of_place(places, rank);
    return std::pair(found.index, found.count);
  };
  EXPECT_EQ(share(0), std::pair(0, 3));
  EXPECT_EQ(share(1), std::pair(0, 1));
  EXPECT_EQ(share(2), std::pair(1, 3));
  EXPECT_EQ(share(3), std::pair(0, 1)) << "it has cores of its own";
  EXPECT_EQ(share(4), std::pair(2, 3));
}

// The calling thread and the threads that OpenMP gives it must all stay on the share.
std::vector<int> pin_with_team(const Cores& cores, int index) {
  EXPECT_EQ(cores.pin({index, cores.count()}, Cores::Scope::thread), "");
  std::vector<int> mine = allowed();
  std::vector<std::vector<int>> team(2);
#pragma omp parallel num_threads(2)
  team[static_cast<std::size_t>(omp_get_thread_num())] = allowed();
  for (const std::vector<int>& member : team) EXPECT_EQ(member, mine);
  return mine;
}

TEST(Cores, ThreadsAndTheirTeamsStayOnTheirShares) {
  const Cores cores;
  if (cores.count() < 2) GTEST_SKIP() << "one core cannot be shared out";
  keep_openmp_from_tying_threads();
  const std::vector<int> before = allowed();
  // All at the same time, as ranks are.
  std::vector<std::vector<int>> shares(static_cast<std::size_t>(cores.count()));
  std::barrier all_done(cores.count());
  std::vector<std::thread> threads;
  for (int i = 0; i < cores.count(); ++i)
    threads.emplace_back([&, i] {
      shares[static_cast<std::size_t>(i)] = pin_with_team(cores, i);
      all_done.arrive_and_wait();
    });
  for (std::thread& thread : threads) thread.join();
  std::vector<int> together;
  for (const std::vector<int>& share : shares)
    together.insert(together.end(), share.begin(), share.end());
  std::sort(together.begin(), together.end());
  EXPECT_EQ(together, before) << "every processor belongs to one share";
  EXPECT_EQ(allowed(), before) << "other threads are left alone";
}

TEST(Cores, NothingIsTiedWhenRanksAreAloneOrTooMany) {
  const Cores cores;
  std::thread([&] {
    const std::vector<int> before = allowed();
    EXPECT_EQ(cores.pin({0, 1}, Cores::Scope::thread), "");
    EXPECT_EQ(cores.pin({0, cores.count() + 1}, Cores::Scope::thread), "");
    EXPECT_EQ(allowed(), before);
  }).join();
}

TEST(Cores, OnlyThoseThatWereLeftToTheProcess) {
  if (allowed().size() < 2) GTEST_SKIP() << "one processor cannot be left out";
  std::thread([] {
    const int last = allowed().back();
    allow({last});
    const Cores cores;
    EXPECT_EQ(cores.count(), 1);
    EXPECT_EQ(cores.to_string(), std::to_string(last));
  }).join();
}

}  // namespace
}  // namespace tessera
