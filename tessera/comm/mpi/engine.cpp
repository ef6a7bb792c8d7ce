#include "tessera/comm/mpi/engine.h"

#include <fmt/ranges.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "tessera/base/check.h"
#include "tessera/base/log.h"
#include "tessera/comm/mpi/tags.h"

namespace tessera {
namespace {

using namespace std::chrono_literals;

// The longest time for which the last messages of a rank may still be in flight after it has
// exited.
constexpr auto kLastWords = 1s;
// A progress thread that does not answer for so long will not end the job.
constexpr auto kAbortTimeout = 10s;

// How long to rest after having waited so long for others: not at all at first, then a twentieth of
// it, so that a wait takes little longer for it and costs next to nothing when it is long.
LiveTimer::Clock::duration rest_after(LiveTimer::Clock::duration waited) {
  if (waited < 30us) return {};
  return std::clamp<LiveTimer::Clock::duration>(waited / 20, 20us, 1ms);
}

// Containers may forbid processes to read each other's memory. Open MPI tries all the same, and
// complains with every message, unless it is told.
void probe_memory_of_others() {
  char from = 0, to = 0;
  const iovec local{&to, 1}, remote{&from, 1};
  if (::process_vm_readv(::getpid(), &local, 1, &remote, 1, 0) != 1)
    ::setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 0);
}

[[noreturn]] void end_job(int exit_code) {
  MPI_Abort(MPI_COMM_WORLD, exit_code);
  std::_Exit(exit_code);
}

}  // namespace

MpiEngine::MpiEngine(const MpiWorld::Options& options) : options_(options) {
  check(
      options.call_timeout >= 1s && options.silence_limit >= 2s,
      "MPI needs a call timeout of at least 1 s and a silence limit of at least 2 s, got {} s and "
      "{} s",
      options.call_timeout.count(), options.silence_limit.count());
  std::promise<void> started;
  thread_ = std::thread([&] { serve(started); });
  try {
    started.get_future().get();
  } catch (...) {
    thread_.join();
    throw;
  }
}

MpiEngine::~MpiEngine() { stop(); }

std::shared_future<void> MpiEngine::submit(std::function<void()> call) {
  std::promise<void> done;
  std::shared_future<void> future = done.get_future().share();
  {
    const std::lock_guard lock(mutex_);
    check(!stopping_, "MPI has ended: a communicator cannot be used after its MpiWorld");
    if (failure_)
      done.set_exception(failure_);
    else
      calls_.push_back({std::move(call), std::move(done)});
  }
  changed_.notify_all();
  return future;
}

void MpiEngine::wait(const std::shared_future<void>& done) {
  try {
    done.get();
  } catch (...) {
    forget(std::current_exception());
    throw;
  }
}

std::exception_ptr MpiEngine::give_up() {
  std::exception_ptr error = fail_waiting(std::make_exception_ptr(
      Error("given up: another error ended the work that this call was a part of")));
  changed_.notify_all();
  return error;
}

void MpiEngine::forget(const std::exception_ptr& error) {
  const std::lock_guard lock(mutex_);
  if (failure_ == error) failure_ = nullptr;
}

std::exception_ptr MpiEngine::fail_waiting(std::exception_ptr error) {
  std::deque<Call> behind;
  {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = std::move(error);
    error = failure_;
    behind.swap(calls_);
  }
  for (Call& call : behind) call.done.set_exception(error);
  return error;
}

bool MpiEngine::has_failed() {
  const std::lock_guard lock(mutex_);
  return failure_ != nullptr;
}

void MpiEngine::send(MpiMessage message) {
  {
    const std::lock_guard lock(mutex_);
    check(!stopping_, "MPI has ended: a communicator cannot be used after its MpiWorld");
    new_sends_.push_back(std::move(message));
  }
  changed_.notify_all();
}

void MpiEngine::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void MpiEngine::abort(const std::string& message, int exit_code) {
  std::fflush(stdout);  // MPI_Abort may not
  std::unique_lock lock(mutex_);
  if (!abort_code_) say(message);
  abort_code_ = abort_code_.value_or(exit_code);
  changed_.notify_all();
  // The progress thread ends this process. mpirun ends the job when a process goes on its own, too.
  changed_.wait_for(lock, kAbortTimeout, [&] { return ended_; });
  std::_Exit(exit_code);
}

void MpiEngine::serve(std::promise<void>& started) {
  try {
    start_mpi();
  } catch (...) {
    started.set_exception(std::current_exception());
    return;
  }
  started.set_value();
  ::prctl(PR_SET_TIMERSLACK, 1000UL);  // ns: short rests are short
  try {
    work();
    end_mpi();
  } catch (const std::exception& error) {
    // Outside of a call there is no caller to throw to.
    say(error.what());
    end_job(1);
  }
  const std::lock_guard lock(mutex_);
  ended_ = true;
  changed_.notify_all();
}

void MpiEngine::start_mpi() {
  int flag = 0;
  MPI_Initialized(&flag);
  check(flag == 0, "MPI was started before in this process: make one MpiWorld, once");
  probe_memory_of_others();
  int provided = 0;
  // The thread that starts MPI is the only one that may call it.
  const int code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
  check(code == MPI_SUCCESS && provided >= MPI_THREAD_FUNNELED,
        "MPI did not start (code {}, thread level {}): start the program with the mpirun of the "
        "Open MPI that it was built with, and see mpirun's output",
        code, provided);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &size_), "MPI_Comm_size");
  MPI_Comm host = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &host),
            "MPI_Comm_split_type");
  check_mpi(MPI_Comm_rank(host, &local_rank_), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(host, &local_size_), "MPI_Comm_size");
  MPI_Comm_free(&host);
  int* largest_tag = nullptr;
  check_mpi(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &largest_tag, &flag),
            "MPI_Comm_get_attr");
  check(flag != 0, "MPI does not say how large a tag may be");
  largest_group_ = largest_group(*largest_tag);
  heartbeat_.emplace(rank_, size_);
}

void MpiEngine::work() {
  while (std::optional<Call> call = next_call()) {
    try {
      call->run();
      call->done.set_value();
    } catch (...) {
      call->done.set_exception(fail_waiting(std::current_exception()));
    }
  }
}

// Ranks end at different times, and go on giving signs of life until all have come here.
void MpiEngine::end_mpi() {
  poll();
  heartbeat_->say_goodbye();
  for (LiveTimer waited; !heartbeat_->others().empty(); rest(sends_.empty() ? 10ms : 1ms)) {
    poll();
    if (waited.look() <= options_.call_timeout) continue;
    say(fmt::format(
        "rank(s) {} did not end the program within {} s, as rank {} did; ending the job",
        fmt::join(heartbeat_->others(), ", "), options_.call_timeout.count(), rank_));
    end_job(1);
  }
  // No rank receives any more after this: a send that is still unfinished never will be done.
  for (const auto end = Clock::now() + kLastWords; !sends_.empty() && Clock::now() < end; rest(1ms))
    poll();
  for (const Sending& sending : sends_)
    log_warning("rank {} sent {} bytes to rank {}, which never received them", rank_,
                sending.message.payload.size(), sending.message.to.front());
  sends_.clear();
  heartbeat_.reset();
  check_mpi(MPI_Finalize(), "MPI_Finalize");
}

std::optional<MpiEngine::Call> MpiEngine::next_call() {
  LiveTimer waited;
  for (;;) {
    poll();
    std::unique_lock lock(mutex_);
    if (!calls_.empty()) {
      Call call = std::move(calls_.front());
      calls_.pop_front();
      return call;
    }
    if (stopping_) return std::nullopt;
    const auto until =
        sends_.empty() ? heartbeat_->next_beat() : Clock::now() + rest_after(waited.look());
    changed_.wait_until(lock, until, [&] {
      return !calls_.empty() || !new_sends_.empty() || stopping_ || abort_code_;
    });
  }
}

bool MpiEngine::finish(MpiRequests& requests, MpiPatience patience) {
  const Clock::duration usual =
      patience == MpiPatience::endless ? Clock::duration::max() : options_.call_timeout;
  poll();  // long calls are made of many short waits
  LiveTimer waited;
  bool left = false;  // a rank that we wait for
  while (!requests.done()) {
    if (requests.advance()) waited.restart();
    poll();
    const bool had_left = left;
    left = requests.any_missing([&](int r) { return heartbeat_->has_left(r); });
    if (left && !had_left) waited.restart();
    if (waited.look() > (left ? kLastWords : usual) || has_failed()) return false;
    rest(rest_after(waited.passed()));
  }
  return true;
}

void MpiEngine::take_group(int number) {
  check(number <= largest_group_, "MPI can tell {} groups of ranks apart; no more can be split off",
        largest_group_);
  next_group_ = number + 1;
}

std::byte* MpiEngine::grown(std::vector<std::byte>& memory, std::size_t bytes) {
  if (memory.size() < bytes) memory.resize(bytes);
  return memory.data();
}

void MpiEngine::poll() {
  start_sends();
  advance_sends();
  heartbeat_->tick(Clock::now());
  if (heartbeat_->silence() <= options_.silence_limit) return;
  say(fmt::format(
      "rank {} has not been heard of for {} s: it may have died or been stopped; ending the job",
      heartbeat_->neighbour(),
      std::chrono::floor<std::chrono::seconds>(heartbeat_->silence()).count()));
  end_job(1);
}

void MpiEngine::start_sends() {
  std::deque<MpiMessage> messages;
  std::optional<int> abort_code;
  {
    const std::lock_guard lock(mutex_);
    abort_code = abort_code_;
    messages.swap(new_sends_);
  }
  if (abort_code) end_job(*abort_code);
  for (MpiMessage& message : messages) post(std::move(message));
}

void MpiEngine::post(MpiMessage message) {
  Sending& sending = sends_.emplace_back(Sending{std::move(message), {}});
  for (const int to : sending.message.to)
    for (const auto* bytes : {&sending.message.header, &sending.message.payload})
      sending.requests.send(bytes->data(), bytes->size(), to, sending.message.tag);
}

void MpiEngine::advance_sends() {
  for (Sending& sending : sends_) sending.requests.advance();
  sends_.remove_if([](const Sending& sending) { return sending.requests.done(); });
}

void MpiEngine::rest(Clock::duration duration) {
  if (duration == Clock::duration::zero()) return;
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, duration, [&] { return !new_sends_.empty() || abort_code_; });
}

void MpiEngine::say(const std::string& message) const {
  fmt::print(stderr, "tessera: rank {}: {}\n", rank_, message);
}

}  // namespace tessera
