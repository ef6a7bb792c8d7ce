// Non-blocking TCP sockets that close themselves. Every wait has a deadline.
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

  /// Listens at this address only. Throws InputError if it does not belong to this machine or is in
  /// use.
  static Socket listen_at(const std::string& address, int port);
  /// On failure the socket is empty, and `why` holds the reason.
  static Socket connect_to(const std::string& address, int port, Deadline deadline,
                           std::string& why);

  explicit operator bool() const { return descriptor_ >= 0; }
  int descriptor() const { return descriptor_; }
  /// A pending connection, or an empty socket. `peer` receives the address of the other side.
  Socket accept(std::string& peer) const;

  /// False if the deadline has passed or the other side is gone.
  bool send_all(std::span<const std::byte> bytes, Deadline deadline) const;
  bool receive_all(std::span<std::byte> bytes, Deadline deadline) const;

  enum class Received { some, nothing_yet, closed };
  /// Reads available bytes, up to the size of `bytes`; `count` receives their number.
  Received receive_some(std::span<std::byte> bytes, std::size_t& count) const;

 private:
  void close();

  int descriptor_ = -1;
};

}  // namespace tessera
