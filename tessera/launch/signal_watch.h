// Records signals that ask a run to stop instead of letting them end the process: the run checks
// between steps, saves, and stops. A second signal, unless it is an echo of the first, ends the
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
  /// Active until it is destroyed. Must be created before other threads, since a signal is
  /// delivered to any thread that does not block it.
  SignalWatch();
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  /// The first signal received; 0: none.
  int received() const { return received_; }

  /// The signals that ask a run to stop; SIGHUP unless it is ignored (nohup).
  static std::vector<int> stopping();
  /// Whether a signal `seconds` after the first one is its echo rather than a second request:
  /// senders often signal both a process and its group, or send SIGHUP in addition.
  static bool is_echo(int signal, int first, double seconds) {
    return seconds < 2 && (signal == first || signal == SIGHUP || first == SIGHUP);
  }
  /// The exit code of a process that was stopped by a signal and has saved, and of one that was
  /// ended at once, which is the shell's code for a signal.
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
