// Starts ranks and runs a body on each. Knows nothing of training.
#pragma once

#include <functional>
#include <memory>

#include "tessera/comm/communicator.h"

namespace tessera {

struct Rank {
  int rank = 0;
  int size = 1;
  int threads = 1;  ///< CPU threads this rank may use
  std::shared_ptr<Communicator> world;
};

/// Runs `body` on `ranks` threads of this process. The first exception of a rank stops the others
/// and is rethrown.
void run_ranks(int ranks, int threads_per_rank, const std::function<void(Rank&)>& body);

/// max(1, cores / ranks), for the cores that this process may use.
int default_threads(int ranks);

}  // namespace tessera
