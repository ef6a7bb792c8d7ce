// Time that passes while this process runs.
#pragma once

#include <algorithm>
#include <chrono>

namespace tessera {

/// Looked at often. A long gap between two looks means that the process was stopped, maybe with all
/// others (a suspended job): that time must not count against anybody who was to do something in
/// it.
class LiveTimer {
 public:
  using Clock = std::chrono::steady_clock;

  void restart() { passed_ = {}; }
  Clock::duration look(Clock::time_point now = Clock::now()) {
    passed_ += std::min<Clock::duration>(now - last_look_, kLongestGap);
    last_look_ = now;
    return passed_;
  }
  /// At the last look.
  Clock::duration passed() const { return passed_; }

 private:
  static constexpr std::chrono::seconds kLongestGap{2};

  Clock::time_point last_look_ = Clock::now();
  Clock::duration passed_{};
};

}  // namespace tessera
