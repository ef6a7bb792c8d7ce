// Rendezvous of ranks that are not connected yet: rank 0 listens, the others connect, and when all
// have arrived each receives a small piece of data from rank 0 (NCCL's id).
//
// Both sides prove that they have the run's secret, by HMAC-SHA256 over fresh random numbers of
// both, which prevents replay. A connection without the secret is dropped and delays no other. Data
// is authenticated, not encrypted.
#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "tessera/launch/socket.h"

namespace tessera {

struct RendezvousOptions {
  std::string address;  ///< address of rank 0's machine, the only one it listens on
  int port = 0;
  int rank = 0;
  int size = 1;
  std::string secret;
  std::chrono::milliseconds timeout{600'000};
  /// How long a connection may take to authenticate itself.
  std::chrono::milliseconds introduction{5'000};
};

/// A connection to an authenticated rank. Later data on it is not authenticated.
struct Connection {
  int rank = 0;
  Socket socket;
};

struct RendezvousResult {
  std::vector<std::byte> data;          ///< from rank 0
  std::vector<Connection> connections;  ///< rank 0 has one to each other rank, which has one to it
};

/// Returns on every rank when all ranks have arrived. After the timeout rank 0 reports the missing
/// ranks (an Error), or a rank that arrived twice (an InputError), and the other ranks throw the
/// same.
RendezvousResult rendezvous(const RendezvousOptions& options, std::span<const std::byte> data);

}  // namespace tessera
