// TCP sockets that close themselves and never block: every wait has a deadline.
#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <string>

namespace tessera {

using Clock = std::chrono::steady_clock;
using Deadline = Clock::time_point;

/// Milliseconds until then, for poll: at least 0, rounded up.
int milliseconds_until(Deadline deadline);

class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  ~Socket() { close(); }
  Socket(Socket&& other) noexcept;
  Socket& operator=(Socket&& other) noexcept;

  /// Listens at this address alone. Throws InputError when it is not this machine's, or is taken.
  static Socket listen_at(const std::string& address, int port);
  /// The socket is empty, and `why` says so, when nobody answers.
  static Socket connect_to(const std::string& address, int port, Deadline deadline,
                           std::string& why);

  explicit operator bool() const { return descriptor_ >= 0; }
  int descriptor() const { return descriptor_; }
  /// A connection that waits to be taken, or an empty socket. `peer` gets the other's address.
  Socket accept(std::string& peer) const;

  /// False when the deadline passed or the other side is gone.
  bool send_all(std::span<const std::byte> bytes, Deadline deadline) const;
  bool receive_all(std::span<std::byte> bytes, Deadline deadline) const;

  enum class Received { some, nothing_yet, closed };
  /// What is there already, up to the size of `bytes`; `count` gets how much.
  Received receive_some(std::span<std::byte> bytes, std::size_t& count) const;

 private:
  void close();

  int descriptor_ = -1;
};

}  // namespace tessera
