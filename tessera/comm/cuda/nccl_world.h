// What the NCCL communicators of one rank share: the time they may take, what has gone wrong, and a
// thread that watches them.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tessera/comm/cuda/event_pool.h"

namespace tessera {

using Clock = std::chrono::steady_clock;

/// Asks `ready` until it says yes, at first at once and then more and more seldom. False when the
/// deadline has passed.
bool poll_until(Clock::time_point deadline, const std::function<bool()>& ready);

/// What the thread looks at five times a second. It must not block.
class Watched {
 public:
  virtual ~Watched() = default;
  /// What is wrong, if anything is.
  virtual std::optional<std::string> find_failure(Clock::time_point now) = 0;
};

/// The first failure is kept. From then on every call of the rank throws it. If the world is still
/// there after some more seconds, the rank's thread waits for something that will not come, and the
/// watching thread ends the process. It does not abort the communication: that would let the rank's
/// thread go on with data that never came.
class NcclWorld {
 public:
  NcclWorld(int device, int rank, int size, std::chrono::seconds timeout, int compared_calls);
  ~NcclWorld();
  NcclWorld(const NcclWorld&) = delete;
  NcclWorld& operator=(const NcclWorld&) = delete;

  int device() const { return device_; }
  int rank() const { return rank_; }
  int size() const { return size_; }
  std::chrono::seconds timeout() const { return timeout_; }
  /// How many calls of each communicator ranks compare before they make them.
  int compared_calls() const { return compared_calls_; }
  EventPool& events() { return events_; }

  bool failed() const { return failed_; }
  /// Throws what went wrong, if something did.
  void check_alive();
  void report_failure(const std::string& reason);

  void watch(Watched& watched);
  /// When this returns, the thread does not look at it and never will.
  void unwatch(Watched& watched);

 private:
  void keep_watch();
  void look(Clock::time_point now);

  int device_, rank_, size_;
  std::chrono::seconds timeout_;
  int compared_calls_;
  EventPool events_;
  std::atomic<bool> failed_ = false;

  std::mutex mutex_;  // guards what follows
  std::condition_variable wake_;
  bool stopping_ = false;
  std::string failure_;
  Clock::time_point failed_at_;
  std::vector<Watched*> watched_;

  std::thread thread_;
};

}  // namespace tessera
