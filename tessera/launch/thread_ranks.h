// Ranks as threads of this process.
#pragma once

#include <chrono>
#include <functional>

#include "tessera/launch/rank.h"

namespace tessera {

/// As run_ranks, but the exception names the rank: "rank 3: text".
void run_thread_ranks(int ranks, int threads_per_rank, std::chrono::seconds timeout,
                      const std::function<void(Rank&)>& body);

}  // namespace tessera
