// A timer that only counts time in which this process runs.
#pragma once

#include <algorithm>
#include <chrono>

namespace tessera {

/// It must be read often. A long gap between two reads means that the process was stopped, possibly
/// with all others (a suspended job). Such gaps are not counted, so that no rank is blamed for
/// them.
class LiveTimer {
 public:
  using Clock = std::chrono::steady_clock;

  void restart() { passed_ = {}; }
  Clock::duration look(Clock::time_point now = Clock::now()) {
    passed_ += std::min<Clock::duration>(now - last_look_, kLongestGap);
    last_look_ = now;
    return passed_;
  }
  /// As of the last read.
  Clock::duration passed() const { return passed_; }

 private:
  static constexpr std::chrono::seconds kLongestGap{2};

  Clock::time_point last_look_ = Clock::now();
  Clock::duration passed_{};
};

}  // namespace tessera
