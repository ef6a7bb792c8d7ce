// Ranks as threads of one process, over shared CPU memory. Ranks may also share a GPU: each has its
// own stream, and data is exchanged through the host (staged.h).
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "tessera/comm/communicator.h"

namespace tessera {

/// The state shared by the ranks of one process. `abort` makes every rank that waits, now or later,
/// throw `reason`.
class LocalWorld {
 public:
  /// A rank that waits longer than `timeout` for another throws an error that names that rank.
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
