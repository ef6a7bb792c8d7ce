#include "tessera/comm/cuda/nccl_world.h"

#include <cstdlib>

#include "tessera/base/check.h"
#include "tessera/base/log.h"
#include "tessera/tensor/cuda/check_cuda.h"

namespace tessera {
namespace {

constexpr int kEventsAtStart = 64;
constexpr std::chrono::milliseconds kBetweenLooks{200};
constexpr std::chrono::seconds kGrace{10};

// Makes the device current and comes back as a value, so that it runs before members that need it.
int select(int device) {
  check_cuda(cudaSetDevice(device), "cudaSetDevice");
  return device;
}

}  // namespace

bool poll_until(Clock::time_point deadline, const std::function<bool()>& ready) {
  using std::chrono::microseconds;
  const auto start = Clock::now();
  while (!ready()) {
    const auto now = Clock::now();
    if (now >= deadline) return false;
    if (now - start < microseconds(1000))
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(microseconds(now - start < microseconds(100'000) ? 50 : 1000));
  }
  return true;
}

NcclWorld::NcclWorld(int device, int rank, int size, std::chrono::seconds timeout,
                     int compared_calls)
    : device_(select(device)),
      rank_(rank),
      size_(size),
      timeout_(timeout),
      compared_calls_(compared_calls),
      events_(kEventsAtStart),
      thread_([this] { keep_watch(); }) {}

NcclWorld::~NcclWorld() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void NcclWorld::check_alive() {
  if (!failed_) return;
  const std::lock_guard lock(mutex_);
  fail("{}", failure_);
}

void NcclWorld::report_failure(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (failed_) return;
  failure_ = reason;
  failed_at_ = Clock::now();
  failed_ = true;
}

void NcclWorld::watch(Watched& watched) {
  const std::lock_guard lock(mutex_);
  watched_.push_back(&watched);
}

void NcclWorld::unwatch(Watched& watched) {
  const std::lock_guard lock(mutex_);
  std::erase(watched_, &watched);
}

void NcclWorld::keep_watch() {
  // Asking for events is one of the things that can break a capture; relaxed, it cannot.
  auto mode = cudaStreamCaptureModeRelaxed;
  cudaThreadExchangeStreamCaptureMode(&mode);
  cudaSetDevice(device_);
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, kBetweenLooks, [this] { return stopping_; })) look(Clock::now());
}

// With mutex_ held.
void NcclWorld::look(Clock::time_point now) {
  if (failed_) {
    if (now - failed_at_ < kGrace) return;
    log_line(LogLevel::error, failure_ + ". This process ends now, since its thread still waits");
    std::_Exit(1);
  }
  for (Watched* each : watched_) {
    const std::optional<std::string> failure = each->find_failure(now);
    if (!failure) continue;
    failure_ = *failure;
    failed_at_ = now;
    failed_ = true;
    return;
  }
}

}  // namespace tessera
