// The progress thread, which makes all MPI calls of a process. It executes calls in the order in
// which they were submitted, and sleeps when idle, since there may be more ranks than cores.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <future>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tessera/comm/mpi.h"
#include "tessera/comm/mpi/heartbeat.h"
#include "tessera/comm/mpi/requests.h"

namespace tessera {

/// A message with its own memory: header and payload for each rank of `to`.
struct MpiMessage {
  std::vector<int> to;
  int tag = 0;
  std::vector<std::byte> header, payload;
};

/// How long to wait for ranks that are alive: up to the call timeout, or without limit.
enum class MpiPatience { limited, endless };

class MpiEngine {
 public:
  explicit MpiEngine(const MpiWorld::Options& options);
  ~MpiEngine();
  MpiEngine(const MpiEngine&) = delete;
  MpiEngine& operator=(const MpiEngine&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  int local_rank() const { return local_rank_; }
  int local_size() const { return local_size_; }
  std::chrono::seconds call_timeout() const { return options_.call_timeout; }

  // For every thread.

  /// Runs `call` on the progress thread, after all earlier ones. Its exception is stored in the
  /// future. If a call fails, all calls after it fail with the same error, since the other ranks
  /// will not make the matching ones. This ends when the rank's thread has received the error from
  /// `wait`.
  std::shared_future<void> submit(std::function<void()> call);
  /// Waits for a call and throws its exception.
  void wait(const std::shared_future<void>& done);
  /// Makes all unfinished calls fail, for a rank that cannot continue; returns their error.
  std::exception_ptr give_up();
  /// Stops failing calls with this error, since the rank's thread has received it.
  void forget(const std::exception_ptr& error);
  /// Sends at once, before any calls that are queued.
  void send(MpiMessage message);
  /// Finishes all submitted calls, waits until all ranks have arrived here, and finalises MPI.
  void stop();
  [[noreturn]] void abort(const std::string& message, int exit_code);

  // For calls that run on the progress thread.

  /// Starts to send.
  void post(MpiMessage message);
  /// Waits for messages. False if one is late (see call_timeout; never with endless patience), or
  /// if its sender has exited.
  bool finish(MpiRequests& requests, MpiPatience patience = MpiPatience::limited);
  bool has_left(int rank) const { return heartbeat_->has_left(rank); }
  /// The first group number that this rank has not used, and how to reserve it.
  int next_group() const { return next_group_; }
  void take_group(int number);
  /// Memory for the data that ranks bring to a call, and for the call itself.
  std::byte* inbox(std::size_t bytes) { return grown(inbox_, bytes); }
  std::byte* scratch(std::size_t bytes) { return grown(scratch_, bytes); }

 private:
  using Clock = MpiHeartbeat::Clock;
  struct Call {
    std::function<void()> run;
    std::promise<void> done;
  };
  struct Sending {
    MpiMessage message;
    MpiRequests requests;
  };

  void serve(std::promise<void>& started);
  void start_mpi();
  void work();
  void end_mpi();
  std::optional<Call> next_call();
  /// Fails the queued calls with the first failure, which is `error` if there was none before.
  std::exception_ptr fail_waiting(std::exception_ptr error);
  bool has_failed();
  /// Work that must never wait: sends, heartbeats, the end of the job.
  void poll();
  void start_sends();
  void advance_sends();
  void rest(Clock::duration duration);
  void say(const std::string& message) const;
  static std::byte* grown(std::vector<std::byte>& memory, std::size_t bytes);

  const MpiWorld::Options options_;
  int rank_ = 0, size_ = 1, local_rank_ = 0, local_size_ = 1;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Call> calls_;            // guarded, like the next five
  std::deque<MpiMessage> new_sends_;  // submitted and not started
  bool stopping_ = false, ended_ = false;
  std::optional<int> abort_code_;  // exit code of the job
  std::exception_ptr failure_;     // the first failure, until the rank's thread has received it

  // Used by the progress thread only.
  std::optional<MpiHeartbeat> heartbeat_;
  std::list<Sending> sends_;  // started and not done
  int next_group_ = 1;        // 0 is the group of all ranks
  int largest_group_ = 0;
  std::vector<std::byte> inbox_, scratch_;

  std::thread thread_;
};

}  // namespace tessera
