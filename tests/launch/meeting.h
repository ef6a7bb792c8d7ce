// Ranks that meet at an address of this machine, as threads, and those who do not belong.
#pragma once

#include <arpa/inet.h>
#include <sys/socket.h>

#include <future>
#include <string>
#include <vector>

#include "tessera/base/check.h"
#include "tessera/launch/rendezvous.h"
#include "tessera/launch/rendezvous_frames.h"
#include "tessera/launch/socket.h"

namespace tessera::test {

using namespace std::chrono_literals;

inline const std::string kHost = "127.0.0.1";
inline const std::string kSecret = "a secret that all ranks of the run share";

/// A port of kHost that nobody listens at.
inline int free_port() {
  const Socket socket(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  check(::bind(socket.descriptor(), generic, size) == 0 &&
            ::getsockname(socket.descriptor(), generic, &size) == 0,
        "cannot find a free port");
  return ntohs(address.sin_port);
}

inline std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

/// What became of a rank.
struct Outcome {
  std::vector<std::byte> data;
  std::string error;  ///< empty when it got the data
  bool input_error = false;
};

class Meeting {
 public:
  explicit Meeting(int size, std::chrono::milliseconds timeout = 20s)
      : size_(size), timeout_(timeout) {}

  RendezvousOptions options(int rank) const {
    return {kHost, port, rank, size_, kSecret, timeout_, 300ms};
  }

  static Outcome attend(const RendezvousOptions& options) {
    Outcome outcome;
    try {
      outcome.data = rendezvous(options, options.rank == 0 ? kData : std::vector<std::byte>{}).data;
    } catch (const InputError& error) {
      outcome.error = error.what();
      outcome.input_error = true;
    } catch (const std::exception& error) {
      outcome.error = error.what();
    }
    return outcome;
  }

  std::future<Outcome> start(const RendezvousOptions& options) const {
    return std::async(std::launch::async, attend, options);
  }
  std::future<Outcome> start(int rank) const { return start(options(rank)); }

  /// A plain connection to rank 0, as soon as it listens.
  Socket connect() const {
    std::string why;
    const Deadline deadline = Clock::now() + 10s;
    for (;;) {
      Socket socket = Socket::connect_to(kHost, port, deadline, why);
      if (socket) return socket;
      check(Clock::now() < deadline, "rank 0 does not listen: {}", why);
      std::this_thread::sleep_for(5ms);
    }
  }

  static Challenge hear_challenge(const Socket& socket) {
    std::array<std::byte, Challenge::kBytes> bytes;
    check(socket.receive_all(bytes, Clock::now() + 5s), "no challenge came");
    return Challenge::from_bytes(bytes).value();
  }

  /// A true hello of a rank, for this challenge.
  Hello hello(int rank, const Challenge& challenge) const {
    Hello hello{static_cast<std::uint32_t>(rank),
                static_cast<std::uint32_t>(size_),
                random_nonce(),
                random_nonce(),
                {}};
    hello.proof = hello.transcript(challenge).prove(kSecret);
    return hello;
  }

  static bool is_closed(const Socket& socket) {
    std::byte one;
    return !socket.receive_all(std::span(&one, 1), Clock::now() + 5s);
  }

  static const std::vector<std::byte> kData;
  const int port = free_port();

 private:
  int size_;
  std::chrono::milliseconds timeout_;
};

inline const std::vector<std::byte> Meeting::kData = bytes_of("the data of rank 0");

}  // namespace tessera::test
