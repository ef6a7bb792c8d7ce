// The thread that makes all MPI calls of a process. It carries out calls in the order in which they
// were given to it, and sleeps when there is nothing to do: ranks may be more than cores.
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

/// Something to send from memory of its own: to each rank of `to`, the header and then the payload.
struct MpiMessage {
  std::vector<int> to;
  int tag = 0;
  std::vector<std::byte> header, payload;
};

/// How long to wait for ranks that live: as long as calls may take, or as long as it takes.
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

  /// Runs `call` on the progress thread, after all earlier ones. Its exception is the future's.
  /// When a call fails, those behind it fail with the same error: other ranks are not where they
  /// would meet them. That ends when the rank's thread has received the error, from `wait`.
  std::shared_future<void> submit(std::function<void()> call);
  /// Waits for a call, and throws what it threw.
  void wait(const std::shared_future<void>& done);
  /// Makes all calls that are not done fail, for a rank that cannot go on; returns their error.
  std::exception_ptr give_up();
  /// Calls no longer fail with this error: the rank's thread knows of it.
  void forget(const std::exception_ptr& error);
  /// Sends at once, whatever calls are waiting.
  void send(MpiMessage message);
  /// Carries out what was given to it, waits until all ranks have come here, and ends MPI.
  void stop();
  [[noreturn]] void abort(const std::string& message, int exit_code);

  // For calls, on the progress thread.

  /// Starts to send.
  void post(MpiMessage message);
  /// Waits for messages. False when one is late (see call_timeout; unless patient), or comes from a
  /// rank that has ended.
  bool finish(MpiRequests& requests, MpiPatience patience = MpiPatience::limited);
  bool has_left(int rank) const { return heartbeat_->has_left(rank); }
  /// The first number that no group of this rank has had, and how to say that it is taken.
  int next_group() const { return next_group_; }
  void take_group(int number);
  /// Memory for what the ranks of a call bring, and for the call itself.
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
  /// Fails the calls that wait with the first failure, which `error` is if there was none before.
  std::exception_ptr fail_waiting(std::exception_ptr error);
  bool has_failed();
  /// What must not wait, whatever else is done: sends, signs of life, the end of the job.
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
  std::deque<Call> calls_;            // guarded, as the next five
  std::deque<MpiMessage> new_sends_;  // given and not started
  bool stopping_ = false, ended_ = false;
  std::optional<int> abort_code_;  // what the job is to end with
  std::exception_ptr failure_;     // the first one, until the rank's thread has received it

  // Of the progress thread.
  std::optional<MpiHeartbeat> heartbeat_;
  std::list<Sending> sends_;  // started and not done
  int next_group_ = 1;        // 0 is the group of all
  int largest_group_ = 0;
  std::vector<std::byte> inbox_, scratch_;

  std::thread thread_;
};

}  // namespace tessera
