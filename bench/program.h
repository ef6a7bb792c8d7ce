// What the benchmark programs share: flags, error codes, and the clock.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tessera/base/dtype.h"
#include "tessera/config/rules/rules.h"
#include "tessera/tensor/device.h"

namespace tessera::bench {

constexpr std::int64_t kMostMicroBatch = 4096;

/// A whole number from 1 to `most`; `what` names it in the refusal.
std::int64_t positive_number(const std::string& what, const std::string& text, std::int64_t most);

/// A flag that a program takes. With "false" as its value it is a switch: given alone, it is on.
struct FlagInfo {
  std::string name;
  std::string value;  ///< unless given
  std::string help = {};
};

/// "--name value", "--name=value" and "--switch" as they were given; other names are refused.
class Flags {
 public:
  Flags(const std::vector<std::string>& args, const std::vector<FlagInfo>& known);

  const std::string& text(const std::string& name) const { return values_.at(name); }
  bool on(const std::string& name) const { return text(name) != "false"; }
  std::int64_t number(const std::string& name, std::int64_t most) const;
  /// --threads
  int threads() const { return static_cast<int>(number("threads", config::most_threads())); }
  /// Whether --help was asked for, and what it should say.
  bool help() const { return help_; }
  const std::string& list() const { return list_; }
  /// A number above 0, up to `most`; `what` it counts is named in the refusal.
  double real(const std::string& name, double most, const char* what) const;
  double seconds(const std::string& name) const { return real(name, 3600, "seconds"); }

 private:
  std::map<std::string, std::string> values_;
  std::string list_;
  bool help_ = false;
};

Device device_from(const std::string& name);
DType dtype_from(const std::string& name);

/// A main function: flags, then `body`. The exit code is 2 for a user's mistake, 1 for ours.
int run_program(int argc, char** argv, const std::vector<FlagInfo>& known,
                const std::function<void(const Flags&)>& body);

inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// The median of at least three calls that together take at least `least_seconds`, after a pause in
/// which idle OpenMP workers of the work before fall asleep, and one call to warm up.
template <class F>
double median_seconds(double least_seconds, F&& call) {
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  call();
  std::vector<double> times;
  const auto begin = std::chrono::steady_clock::now();
  do {
    const auto start = std::chrono::steady_clock::now();
    call();
    times.push_back(seconds_since(start));
  } while (times.size() < 3 || seconds_since(begin) < least_seconds);
  return median(std::move(times));
}

}  // namespace tessera::bench
