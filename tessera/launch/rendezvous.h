// Where ranks that nothing connects yet meet: rank 0 listens, the others come, and when all are
// there each gets a small piece of data from rank 0 (NCCL's id).
//
// Both sides prove that they know the run's secret, by HMAC-SHA256 over numbers that both have just
// drawn, so nothing can be replayed. Whoever does not is dropped and keeps nobody else waiting.
// What is sent is authentic, not hidden.
#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "tessera/launch/socket.h"

namespace tessera {

struct RendezvousOptions {
  std::string address;  ///< of rank 0's machine; it listens there and nowhere else
  int port = 0;
  int rank = 0;
  int size = 1;
  std::string secret;
  std::chrono::milliseconds timeout{600'000};
  /// How long a connection may take to prove itself.
  std::chrono::milliseconds introduction{5'000};
};

/// To a rank that was met. What is sent there from now on is not authenticated.
struct Connection {
  int rank = 0;
  Socket socket;
};

struct RendezvousResult {
  std::vector<std::byte> data;          ///< rank 0's
  std::vector<Connection> connections;  ///< rank 0 has one to each other rank, which has one to it
};

/// Returns on every rank, when all ranks have come. Rank 0 names those that have not when the time
/// is over (an Error), or the one that came twice (an InputError), and tells the others, which
/// throw the same.
RendezvousResult rendezvous(const RendezvousOptions& options, std::span<const std::byte> data);

}  // namespace tessera
