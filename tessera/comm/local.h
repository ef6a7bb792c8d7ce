// Ranks as threads of one process, over shared CPU memory. They may share a GPU, too: each has a
// stream of its own, and what they exchange goes through the host (staged.h).
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "tessera/comm/communicator.h"

namespace tessera {

/// What the ranks of one process share. `abort` makes every rank that waits, now or later, throw
/// `reason`.
class LocalWorld {
 public:
  /// A rank that waits longer than `timeout` for another throws, and names it.
  explicit LocalWorld(int size, std::chrono::seconds timeout = std::chrono::minutes(10));
  ~LocalWorld();
  /// The communicator of one rank; each rank takes its own.
  std::shared_ptr<Communicator> communicator(int rank);
  void abort(const std::string& reason);

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace tessera
