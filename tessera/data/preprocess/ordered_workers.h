// Threads that work on jobs side by side and hand the results back in the order of the jobs.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <future>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "tessera/base/check.h"

namespace tessera {

/// 0: as many as there are cores.
inline int threads_or_all(int asked) {
  return asked > 0 ? asked : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

/// put and take are for one thread, the owner. It bounds the memory: it takes results before it
/// puts more jobs.
template <class Job, class Result>
class OrderedWorkers {
 public:
  OrderedWorkers(int threads, std::function<Result(Job&&)> work) : work_(std::move(work)) {
    try {
      for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { run(); });
    } catch (const std::system_error& error) {
      stop();
      fail_input("only {} of {} threads could be started ({}): ask for fewer", threads_.size(),
                 threads, error.what());
    }
  }
  /// Jobs that nobody has begun are dropped.
  ~OrderedWorkers() { stop(); }
  OrderedWorkers(const OrderedWorkers&) = delete;
  OrderedWorkers& operator=(const OrderedWorkers&) = delete;

  void put(Job job) {
    std::packaged_task<Result()> task(
        [this, job = std::move(job)]() mutable { return work_(std::move(job)); });
    results_.push_back(task.get_future());
    {
      const std::lock_guard lock(mutex_);
      tasks_.push_back(std::move(task));
    }
    wake_.notify_one();
  }
  /// How many jobs were put and not taken.
  std::size_t pending() const { return results_.size(); }
  /// The result of the oldest of them, or its exception. Waits for it.
  Result take() {
    std::future<Result> result = std::move(results_.front());
    results_.pop_front();
    return result.get();
  }

 private:
  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_all();
    for (std::thread& thread : threads_)
      if (thread.joinable()) thread.join();
  }
  void run() {
    while (true) {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
      if (stopping_) return;
      std::packaged_task<Result()> task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      task();
    }
  }

  std::function<Result(Job&&)> work_;
  std::deque<std::future<Result>> results_;  // the owner's
  std::mutex mutex_;                         // of what follows
  std::condition_variable wake_;
  std::deque<std::packaged_task<Result()>> tasks_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace tessera
