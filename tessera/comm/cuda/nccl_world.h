// State shared by the NCCL communicators of one rank: the timeout, the first failure, and a
// watchdog thread.
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

/// Polls `ready` until it returns true, at first immediately and then at growing intervals. False
/// if the deadline has passed.
bool poll_until(Clock::time_point deadline, const std::function<bool()>& ready);

/// An object that the watchdog checks five times a second. The check must not block.
class Watched {
 public:
  virtual ~Watched() = default;
  /// The failure, if there is one.
  virtual std::optional<std::string> find_failure(Clock::time_point now) = 0;
};

/// The first failure is kept, and every later call of the rank throws it. If the world still exists
/// after a few more seconds, the rank's thread waits for something that will never complete, and
/// the watchdog ends the process. It does not abort the communication: the rank's thread would then
/// continue with data that never arrived.
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
  /// The number of calls of each communicator that ranks compare before they make them.
  int compared_calls() const { return compared_calls_; }
  EventPool& events() { return events_; }

  bool failed() const { return failed_; }
  /// Throws the failure, if there is one.
  void check_alive();
  void report_failure(const std::string& reason);

  void watch(Watched& watched);
  /// After this returns, the watchdog does not access the object any more.
  void unwatch(Watched& watched);

 private:
  void keep_watch();
  void look(Clock::time_point now);

  int device_, rank_, size_;
  std::chrono::seconds timeout_;
  int compared_calls_;
  EventPool events_;
  std::atomic<bool> failed_ = false;

  std::mutex mutex_;  // guards the following members
  std::condition_variable wake_;
  bool stopping_ = false;
  std::string failure_;
  Clock::time_point failed_at_;
  std::vector<Watched*> watched_;

  std::thread thread_;
};

}  // namespace tessera
