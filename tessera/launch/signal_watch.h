// Signals that ask a run to stop are noted instead of ending the process: the run looks here
// between steps, saves, and stops by itself. A second one, but for an echo of the first, ends the
// process at once.
#pragma once

#include <signal.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

namespace tessera {

class SignalWatch {
 public:
  /// From now on, until it is destroyed. Threads that exist already must not: signals go to any
  /// thread that does not hold them back.
  SignalWatch();
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  /// The first that came; 0: none has.
  int received() const { return received_; }

  /// Those that ask a run to stop, SIGHUP unless it is ignored (nohup).
  static std::vector<int> stopping();
  /// Whether a signal `seconds` after the first one is its echo and no second wish: senders often
  /// send one twice, to a process and to its group, or SIGHUP beside another.
  static bool is_echo(int signal, int first, double seconds) {
    return seconds < 2 && (signal == first || signal == SIGHUP || first == SIGHUP);
  }
  /// What a process returns that was stopped by a signal and has saved; and that of one that was
  /// ended at once, which is what shells say of a process that a signal ended.
  static int exit_code_saved(int signal) { return 64 + signal; }
  static int exit_code_at_once(int signal) { return 128 + signal; }
  /// "SIGTERM".
  static std::string signal_name(int signal);

 private:
  void watch();

  sigset_t watched_, before_;
  std::atomic<int> received_ = 0;
  std::atomic<bool> over_ = false;
  std::thread thread_;
};

}  // namespace tessera
