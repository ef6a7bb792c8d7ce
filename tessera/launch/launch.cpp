#include "tessera/launch/launch.h"

#include <sched.h>

#include <algorithm>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "tessera/comm/local.h"

namespace tessera {

int default_threads(int ranks) {
  cpu_set_t set;
  CPU_ZERO(&set);
  const int cores = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
  return std::max(1, cores / std::max(1, ranks));
}

void run_ranks(int ranks, int threads_per_rank, const std::function<void(Rank&)>& body) {
  if (ranks == 1) {
    Rank only{0, 1, threads_per_rank, make_self_communicator()};
    body(only);
    return;
  }
  LocalWorld world(ranks);
  std::mutex mutex;
  std::exception_ptr first_failure;
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      try {
        Rank rank{r, ranks, threads_per_rank, world.communicator(r)};
        body(rank);
      } catch (const std::exception& error) {
        {
          const std::lock_guard lock(mutex);
          if (!first_failure) first_failure = std::current_exception();
        }
        world.abort("rank " + std::to_string(r) + ": " + error.what());
      }
    });
  for (std::thread& thread : threads) thread.join();
  if (first_failure) std::rethrow_exception(first_failure);
}

}  // namespace tessera
