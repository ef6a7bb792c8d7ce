// Built for this machine's instruction set, so that the compiler turns the vectors into its widest
// registers; see CMakeLists.txt.
#include "bench/fma_peak.h"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "bench/program.h"

namespace tessera::bench {
namespace {

// Enough independent sums to cover the latency of two multiply-add units (2 x 4 or 5 cycles), few
// enough to fit in 16 registers beside the two factors.
constexpr int kSums = 12;
// Of the narrowest vectors: a fifth of a second, so that the start of threads does not count.
constexpr std::int64_t kRounds = 256'000'000;

using Vector16 = float __attribute__((vector_size(16)));
using Vector32 = float __attribute__((vector_size(32)));
using Vector64 = float __attribute__((vector_size(64)));

template <class Vector>
float multiply_add_loop(std::int64_t rounds) {
  const Vector factor = Vector{} + 0.999f;
  const Vector addend = Vector{} + 0.001f;
  Vector sums[kSums];
  // Not from 1, where a sum would stay and the compiler would see it.
  for (int i = 0; i < kSums; ++i) sums[i] = Vector{} + static_cast<float>(i + 2);
  for (std::int64_t r = 0; r < rounds; ++r)
#pragma GCC unroll 16
    for (int i = 0; i < kSums; ++i) sums[i] = sums[i] * factor + addend;
  Vector total{};
  for (int i = 0; i < kSums; ++i) total += sums[i];
  return total[0];
}

template <class Vector>
double rate(int threads) {
  constexpr int kTries = 10;
  constexpr std::size_t kFlopsPerRound = sizeof(Vector) * 2 * kSums / sizeof(float);
  const std::int64_t rounds = kRounds * 16 / static_cast<std::int64_t>(sizeof(Vector));
  std::atomic<float> result{0};  // somebody must want it
  double best = 0;
  for (int i = 0; i < kTries; ++i) {
    std::barrier start(threads + 1);
    std::vector<std::thread> team;
    for (int t = 0; t < threads; ++t)
      team.emplace_back([&] {
        start.arrive_and_wait();
        result = multiply_add_loop<Vector>(rounds);
      });
    // The clock starts first: a late look at it would flatter the machine.
    const auto begin = std::chrono::steady_clock::now();
    start.arrive_and_wait();
    for (std::thread& thread : team) thread.join();
    best = std::max(best, static_cast<double>(kFlopsPerRound) * static_cast<double>(rounds) *
                              threads / seconds_since(begin));
  }
  return best;
}

}  // namespace

// Vectors wider than the registers spill and lose, narrower ones do less per instruction: the right
// width is the fastest.
double fma_peak(int threads) {
  return std::max({rate<Vector16>(threads), rate<Vector32>(threads), rate<Vector64>(threads)});
}

}  // namespace tessera::bench
