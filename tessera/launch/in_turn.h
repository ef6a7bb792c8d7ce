// The order in which ranks build data that is cached in files.
#pragma once

#include "tessera/launch/rank.h"

namespace tessera {

/// Returns the result of `build` on every rank. With a cache rank 0 builds first; then one rank of
/// each machine, which finds rank 0's files or, without a shared disk, builds its own; then all
/// others, which find them. Without a cache all ranks build at once. Each may take long; the others
/// wait without a timeout.
template <class Build>
auto built_in_turn(const Rank& rank, bool cached, const Build& build) {
  constexpr int kTurns = 3;
  const int own = rank.rank == 0 ? 0 : rank.local_rank == 0 ? 1 : 2;
  const int turns = cached ? kTurns : 1;
  const int turn = cached ? own : 0;
  for (int i = 0; i < turn; ++i) rank.world->barrier_without_timeout();
  auto built = build();
  for (int i = turn; i < turns; ++i) rank.world->barrier_without_timeout();
  return built;
}

}  // namespace tessera
