// OpenMP loops of the CPU backend. Results must not depend on the number of threads, so every op
// obeys one of two rules: work is cut into pieces that depend on the shapes alone, and partial sums
// of pieces are added in the order of the pieces; or no sum crosses the border of a piece. Which
// thread runs a piece, and when, has then no effect.
#pragma once

#include <algorithm>
#include <cstdint>

namespace tessera::cpu {

/// Not inlined, so that the body of a piece is compiled once. Inlined into the serial and the
/// parallel loop below, the two copies could fuse multiply and add differently, and one thread
/// would round differently from several.
template <class F>
[[gnu::noinline]] void run_piece(F& f, std::int64_t i) {
  f(i);
}

/// Calls f(i) for 0 <= i < n on up to `threads` threads. Pieces are assigned dynamically, one at a
/// time, because some cost more than others (causal attention) and other ranks may share the cores.
/// With one thread or one piece no parallel region is started.
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

/// Calls f(begin, end) over [0, n) in pieces of `piece`; the last one may be shorter.
template <class F>
void parallel_pieces(int threads, std::int64_t n, std::int64_t piece, F&& f) {
  parallel_for(threads, (n + piece - 1) / piece,
               [&](std::int64_t i) { f(i * piece, std::min(n, (i + 1) * piece)); });
}

/// Rows of `width` elements per piece: about 16k elements, a few microseconds of work, so that the
/// overhead of handing out a piece is small. At least one row.
inline std::int64_t rows_per_piece(std::int64_t width) {
  return std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(1, width));
}

}  // namespace tessera::cpu
