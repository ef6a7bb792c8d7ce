// The context of a function that runs on one of several ranks.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tessera/comm/communicator.h"
#include "tessera/launch/signal_watch.h"

namespace tessera {

struct Rank {
  int rank = 0;
  int size = 1;
  int threads = 1;  ///< CPU threads this rank may use
  std::shared_ptr<Communicator> world;
  int local_rank = 0;     ///< index among the ranks of its machine
  Device device = {};     ///< device for computation and for the communicator's memory
  int process_ranks = 1;  ///< number of ranks that are threads of its process
  /// Signals received by its process; null: they are not watched.
  const SignalWatch* signals = nullptr;
};

/// "rank 3", "ranks 0, 2 and 5-7": ascending numbers, for messages.
std::string list_of_ranks(const std::vector<int>& ranks);

}  // namespace tessera
