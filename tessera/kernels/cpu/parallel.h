// Threads of the CPU backend. Work is cut into pieces that depend on the shapes alone, or into
// pieces that do not show in the result, so results never depend on the number of threads.
#pragma once

#include <algorithm>
#include <cstdint>

namespace tessera::cpu {

/// Not inlined: a loop that is compiled twice, for one thread and for several, may fuse multiply
/// and add differently in each, and round differently.
template <class F>
[[gnu::noinline]] void run_piece(F& f, std::int64_t i) {
  f(i);
}

/// Calls f(i) for 0 <= i < n on up to `threads` threads; pieces are dealt as threads become free.
template <class F>
void parallel_for(int threads, std::int64_t n, F&& f) {
  const int team = static_cast<int>(std::min<std::int64_t>(threads, n));
  if (team <= 1) {
    for (std::int64_t i = 0; i < n; ++i) run_piece(f, i);
    return;
  }
#pragma omp parallel for num_threads(team) schedule(dynamic, 1)
  for (std::int64_t i = 0; i < n; ++i) run_piece(f, i);
}

/// Calls f(begin, end) over [0, n) in pieces of `piece`.
template <class F>
void parallel_pieces(int threads, std::int64_t n, std::int64_t piece, F&& f) {
  parallel_for(threads, (n + piece - 1) / piece,
               [&](std::int64_t i) { f(i * piece, std::min(n, (i + 1) * piece)); });
}

/// How many rows of `width` elements make a piece of about 16k elements.
inline std::int64_t rows_per_piece(std::int64_t width) {
  return std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(1, width));
}

}  // namespace tessera::cpu
