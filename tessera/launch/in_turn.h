// The order in which ranks build what a cache of files can spare the others.
#pragma once

#include "tessera/launch/rank.h"

namespace tessera {

/// What `build` returns, on every rank. With a cache rank 0 builds first; then one rank of each
/// machine, which finds what rank 0 made or, where disks are not shared, makes its own; then all
/// others, which find it. Without a cache all build at once. Each may take long: the others wait.
template <class Build>
auto built_in_turn(const Rank& rank, bool cached, const Build& build) {
  constexpr int kTurns = 3;
  const int own = rank.rank == 0 ? 0 : rank.local_rank == 0 ? 1 : 2;
  const int turns = cached ? kTurns : 1;
  const int turn = cached ? own : 0;
  for (int i = 0; i < turn; ++i) rank.world->patient_barrier();
  auto built = build();
  for (int i = turn; i < turns; ++i) rank.world->patient_barrier();
  return built;
}

}  // namespace tessera
