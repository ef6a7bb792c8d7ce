#include "tessera/comm/cuda/nccl_lane.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "tessera/base/log.h"
#include "tessera/tensor/cuda/check_cuda.h"

namespace tessera {
namespace {

// How long the end of a communicator may take; all its operations should be done by then.
constexpr std::chrono::seconds kFinalize{60};

bool is_well(ncclResult_t result) { return result == ncclSuccess || result == ncclInProgress; }

// Communication overlaps with computation: small urgent kernels should not queue behind large ones.
cudaStream_t make_urgent_stream() {
  int least = 0, greatest = 0;
  check_cuda(cudaDeviceGetStreamPriorityRange(&least, &greatest),
             "cudaDeviceGetStreamPriorityRange");
  cudaStream_t stream = nullptr;
  check_cuda(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest),
             "cudaStreamCreateWithPriority");
  return stream;
}

}  // namespace

bool NcclLane::is_captured(cudaStream_t stream) {
  if (stream == nullptr) return false;
  cudaStreamCaptureStatus status{};
  check_cuda(cudaStreamIsCapturing(stream, &status), "cudaStreamIsCapturing");
  return status != cudaStreamCaptureStatusNone;
}

std::string NcclOperation::to_string() const {
  return fmt::format("{}{}{}{}", call, data ? " of " + data.to_string() : "",
                     bytes > 0 ? fmt::format(" ({} bytes)", bytes) : "",
                     peer >= 0 ? fmt::format(", peer rank {}", peer) : "");
}

NcclLane::NcclLane(std::shared_ptr<NcclWorld> world)
    : world_(std::move(world)), stream_(make_urgent_stream()) {
  world_->watch(*this);
}

NcclLane::~NcclLane() {
  world_->unwatch(*this);
  end();
  cudaStreamDestroy(stream_);
}

void NcclLane::connect(const ncclUniqueId& id) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  const NcclOperation what{"the start of all ranks", {}};
  ncclResult_t result = ncclSuccess;
  {
    const std::lock_guard lock(handle_mutex_);
    result = ncclCommInitRankConfig(&handle_, world_->size(), id, world_->rank(), &config);
  }
  if (!is_well(result)) give_up(refused(what, result));
  await_ready(what);
  read_place();
}

std::shared_ptr<NcclLane> NcclLane::split(int colour, int key) {
  check(colour >= 0, "split: NCCL takes no negative colour, got {}", colour);
  world_->check_alive();
  const NcclOperation what{"split", {}};
  ncclResult_t result = ncclSuccess;
  {
    const std::lock_guard lock(handle_mutex_);
    part_ = nullptr;
    result = ncclCommSplit(handle_, colour, key, &part_, nullptr);
  }
  if (!is_well(result)) give_up(refused(what, result));
  await_ready(what);
  auto part = std::make_shared<NcclLane>(world_);
  {
    const std::lock_guard lock(part->handle_mutex_);
    part->handle_ = std::exchange(part_, nullptr);
  }
  part->await_ready(what);
  part->read_place();
  return part;
}

void NcclLane::read_place() {
  const std::lock_guard lock(handle_mutex_);
  ncclResult_t result = ncclCommUserRank(handle_, &rank_);
  if (result == ncclSuccess) result = ncclCommCount(handle_, &size_);
  check(result == ncclSuccess, "{}", refused({"the start", {}}, result));
}

EventHandle NcclLane::run(const NcclOperation& what, cudaStream_t after, const Calls& calls) {
  world_->check_alive();
  const bool captured = is_captured(after);
  captured_ = captured_ || captured;
  Pending pending{what, world_->events().take(), world_->events().take(), {}};
  check_cuda(cudaEventRecord(pending.ready.get(), after != nullptr ? after : stream_),
             "cudaEventRecord");
  check_cuda(cudaStreamWaitEvent(stream_, pending.ready.get(), 0), "cudaStreamWaitEvent");
  ncclResult_t result = ncclSuccess;
  {
    const std::lock_guard lock(handle_mutex_);
    result = calls(handle_, stream_);
  }
  if (!is_well(result)) give_up(refused(what, result));
  await_ready(what);  // only then is all of it on the stream
  check_cuda(cudaEventRecord(pending.done.get(), stream_), "cudaEventRecord");
  EventHandle done = pending.done;
  if (!captured) {
    const std::lock_guard lock(pending_mutex_);
    pending_.push_back(std::move(pending));
  }
  return done;
}

void NcclLane::watch(const NcclOperation& what, cudaStream_t stream,
                     const std::function<void()>& launch) {
  world_->check_alive();
  Pending pending{what, world_->events().take(), world_->events().take(), {}};
  check_cuda(cudaEventRecord(pending.ready.get(), stream), "cudaEventRecord");
  launch();
  check_cuda(cudaEventRecord(pending.done.get(), stream), "cudaEventRecord");
  const std::lock_guard lock(pending_mutex_);
  pending_.push_back(std::move(pending));
}

void NcclLane::wait(const NcclOperation& what, const EventHandle& done) {
  const auto ready = [&] { return is_ready(what) && is_done(done); };
  if (!poll_until(deadline_of(what), ready)) give_up(too_late(what));
}

Clock::time_point NcclLane::deadline_of(const NcclOperation& what) const {
  return what.patient ? Clock::time_point::max() : Clock::now() + world_->timeout();
}

// A query of a handle's state may complete a pending call of the handle, so it takes the lock like
// every other call.
ncclResult_t NcclLane::state() {
  const std::lock_guard lock(handle_mutex_);
  ncclResult_t state = ncclSuccess;
  const ncclResult_t result = ncclCommGetAsyncError(handle_, &state);
  return result == ncclSuccess ? state : result;
}

bool NcclLane::is_ready(const NcclOperation& what) {
  world_->check_alive();
  const ncclResult_t now = state();
  if (!is_well(now)) give_up(refused(what, now));
  return now == ncclSuccess;
}

void NcclLane::await_ready(const NcclOperation& what) {
  if (!poll_until(deadline_of(what), [&] { return is_ready(what); })) give_up(too_late(what));
}

// Called by the watching thread, so nothing here may block or throw.
std::optional<std::string> NcclLane::find_failure(Clock::time_point now) {
  // If the lock is taken, the rank's thread is in a call and will see the result itself.
  if (const std::unique_lock lock(handle_mutex_, std::try_to_lock); lock && handle_ != nullptr) {
    ncclResult_t state = ncclSuccess;
    ncclResult_t result = ncclCommGetAsyncError(handle_, &state);
    if (result == ncclSuccess) result = state;
    if (!is_well(result)) return refused({"an operation under way", {}}, result);
  }
  try {
    return find_stalled(now);
  } catch (const std::exception& error) {
    return fmt::format("{}: {}", where(), error.what());
  }
}

// The operations of a stream end one after the other, so only the first of them is timed. Its time
// starts when this rank's own earlier work is done: other ranks are not to blame for a long queue.
std::optional<std::string> NcclLane::find_stalled(Clock::time_point now) {
  const std::lock_guard lock(pending_mutex_);
  while (!pending_.empty() && is_done(pending_.front().done)) pending_.pop_front();
  if (pending_.empty()) return std::nullopt;
  Pending& first = pending_.front();
  if (first.what.patient) return std::nullopt;
  if (!first.started && is_done(first.ready)) first.started = now;
  if (!first.started || now - *first.started < world_->timeout()) return std::nullopt;
  return too_late(first.what);
}

void NcclLane::end() noexcept {
  if (handle_ == nullptr) return;
  // An exception unwinds this rank: the other ranks may never call finalize with it.
  if (std::uncaught_exceptions() > 0)
    world_->report_failure(where() + ": left its communicators because of an error");
  if (world_->failed())
    abort();
  else
    finalize();
}

void NcclLane::finalize() noexcept {
  ncclResult_t now = ncclCommFinalize(handle_);
  const auto limit = std::min(kFinalize, world_->timeout());
  poll_until(Clock::now() + limit, [&] { return (now = state()) != ncclInProgress; });
  if (now == ncclSuccess) {
    ncclCommDestroy(handle_);
    return;
  }
  log_warning("{}: a communicator of {} ranks did not end in order ({}){}", where(), size_,
              ncclGetErrorString(now),
              captured_ ? ": graphs that use it must be destroyed before it" : "");
  // NCCL would wait for the graphs; the end of the process frees all the same.
  if (!captured_) abort();
}

// Stops operations in flight and frees the handle. NCCL waits here for graphs that hold operations;
// if one is left after a failure, the watching thread ends the process.
void NcclLane::abort() noexcept {
  const std::lock_guard lock(handle_mutex_);
  if (handle_ != nullptr) ncclCommAbort(std::exchange(handle_, nullptr));
}

std::string NcclLane::where() const {
  return size_ == world_->size() || size_ == 0
             ? fmt::format("rank {} of {}", world_->rank(), world_->size())
             : fmt::format("rank {} of {} (rank {} of a group of {})", world_->rank(),
                           world_->size(), rank_, size_);
}

std::string NcclLane::too_late(const NcclOperation& what) const {
  return fmt::format(
      "{}: {} did not end within {} s. Another rank has not come to it: see the others' output, "
      "or give them more time",
      where(), what.to_string(), world_->timeout().count());
}

std::string NcclLane::refused(const NcclOperation& what, ncclResult_t result) const {
  return fmt::format("{}: NCCL failed in {}: {}. {}", where(), what.to_string(),
                     ncclGetErrorString(result), ncclGetLastError(nullptr));
}

// Aborts operations in flight at once, so that no destructor waits for them; not if a graph holds
// operations, since NCCL would then wait for the graph.
void NcclLane::give_up(const std::string& reason) {
  world_->report_failure(reason);
  if (!captured_) abort();
  world_->check_alive();
  fail("{}", reason);
}

}  // namespace tessera
