#include "tessera/launch/signal_watch.h"

#include <fmt/core.h>
#include <unistd.h>

#include <chrono>

namespace tessera {
namespace {

// SLURM and Kubernetes send SIGTERM, a terminal SIGINT, and SIGHUP when its connection is lost
// (unless nohup has switched that off); SIGUSR1 is what users ask schedulers for.
// SIGUSR2 is how this program tells ranks that it started with mpirun, and it repeats it.
constexpr int kStopping[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2};

bool is_ignored(int signal) {
  struct sigaction action {};
  return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

std::vector<int> SignalWatch::stopping() {
  std::vector<int> signals(std::begin(kStopping), std::end(kStopping));
  if (is_ignored(SIGHUP)) std::erase(signals, SIGHUP);
  return signals;
}

SignalWatch::SignalWatch() {
  sigemptyset(&watched_);
  for (const int signal : stopping()) sigaddset(&watched_, signal);
  pthread_sigmask(SIG_BLOCK, &watched_, &before_);
  thread_ = std::thread([this] { watch(); });
}

SignalWatch::~SignalWatch() {
  over_ = true;
  thread_.join();
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void SignalWatch::watch() {
  constexpr timespec kPatience{0, 100'000'000};
  std::chrono::steady_clock::time_point first;
  while (!over_) {
    const int signal = sigtimedwait(&watched_, nullptr, &kPatience);
    if (signal <= 0) continue;
    int none = 0;
    if (received_.compare_exchange_strong(none, signal)) {
      first = std::chrono::steady_clock::now();
      continue;
    }
    const std::chrono::duration<double> since = std::chrono::steady_clock::now() - first;
    if (is_echo(signal, received_, since.count()) || signal == SIGUSR2) continue;
    fmt::print(stderr, "tessera: a second signal ({}): stopped at once\n", signal_name(signal));
    ::_exit(exit_code_at_once(signal));
  }
}

std::string SignalWatch::signal_name(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name == nullptr ? fmt::format("signal {}", signal) : fmt::format("SIG{}", name);
}

}  // namespace tessera
