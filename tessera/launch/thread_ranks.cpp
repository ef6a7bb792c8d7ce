#include "tessera/launch/thread_ranks.h"

#include <chrono>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "tessera/base/check.h"
#include "tessera/comm/local.h"
#include "tessera/launch/launch.h"

namespace tessera {
namespace {

struct Failure {
  int rank;
  std::exception_ptr error;
};

// Returns the first failure. Those that it causes on other ranks come later, and are dropped.
std::optional<Failure> run(int ranks, int threads_per_rank, const std::function<void(Rank&)>& body,
                           std::chrono::seconds timeout = std::chrono::minutes(10)) {
  LocalWorld world(ranks, timeout);
  std::mutex mutex;
  std::optional<Failure> first;
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      try {
        Rank rank{r, ranks, threads_per_rank, world.communicator(r), r, {}, ranks};
        body(rank);
      } catch (const std::exception& error) {
        {
          const std::lock_guard lock(mutex);
          if (!first) first = Failure{r, std::current_exception()};
        }
        world.abort(fmt::format("rank {}: {}", r, error.what()));
      }
    });
  for (std::thread& thread : threads) thread.join();
  return first;
}

}  // namespace

void run_ranks(int ranks, int threads_per_rank, const std::function<void(Rank&)>& body) {
  if (ranks == 1) {
    Rank only{0, 1, threads_per_rank, make_self_communicator()};
    body(only);
    return;
  }
  const std::optional<Failure> failure = run(ranks, threads_per_rank, body);
  if (failure) std::rethrow_exception(failure->error);
}

void run_thread_ranks(int ranks, int threads_per_rank, std::chrono::seconds timeout,
                      const std::function<void(Rank&)>& body) {
  const std::optional<Failure> failure = run(ranks, threads_per_rank, body, timeout);
  if (!failure) return;
  try {
    std::rethrow_exception(failure->error);
  } catch (const InputError& error) {
    fail_input("rank {}: {}", failure->rank, error.what());
  } catch (const std::exception& error) {
    fail("rank {}: {}", failure->rank, error.what());
  }
}

}  // namespace tessera
