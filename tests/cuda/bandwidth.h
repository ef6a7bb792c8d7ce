// How near an op comes to the speed of the GPU's memory. Printed where TESSERA_SPEED is set, never
// judged: a test must not fail because a machine is busy.
#pragma once

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>

#include "tests/support/tensors.h"

namespace tessera::test {

inline bool speed_wanted() { return std::getenv("TESSERA_SPEED") != nullptr; }

/// `bytes` is the least that the op must move.
inline void print_bandwidth(Lab& lab, const char* what, double bytes,
                            const std::function<void()>& run) {
  constexpr int kRuns = 20;
  constexpr double kCopy = 4204e9;  // bytes per second of a large copy on an H200
  for (int i = 0; i < 3; ++i) run();
  lab.stream.synchronize();
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kRuns; ++i) run();
  lab.stream.synchronize();
  const std::chrono::duration<double> all = std::chrono::steady_clock::now() - start;
  const double seconds = all.count() / kRuns;
  std::printf("%-44s %9.1f us %6.0f GB/s, %3.0f %% of a copy\n", what, 1e6 * seconds,
              1e-9 * bytes / seconds, 100 * bytes / seconds / kCopy);
}

}  // namespace tessera::test
