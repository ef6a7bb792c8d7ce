#include "tessera/launch/socket.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "tessera/base/check.h"

namespace tessera {
namespace {

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

AddressList look_up(const std::string& address, int port, int flags, std::string& why) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0) why = fmt::format("'{}' is no known address: {}", address, gai_strerror(error));
  return {error == 0 ? found : nullptr, &freeaddrinfo};
}

Socket open_for(const addrinfo& to) {
  return Socket(
      ::socket(to.ai_family, to.ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, to.ai_protocol));
}

// False when the deadline passed first.
bool wait_for_events(int descriptor, short events, Deadline deadline) {
  pollfd waiting{descriptor, events, 0};
  for (;;) {
    const int ready = ::poll(&waiting, 1, milliseconds_until(deadline));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
    if (ready == 0 && Clock::now() >= deadline) return false;
  }
}

void set_option(const Socket& socket, int level, int name) {
  const int on = 1;
  ::setsockopt(socket.descriptor(), level, name, &on, sizeof(on));
}

bool try_connect(const Socket& socket, const addrinfo& to, Deadline deadline, std::string& why) {
  if (::connect(socket.descriptor(), to.ai_addr, to.ai_addrlen) == 0) return true;
  int error = errno;
  if (error == EINPROGRESS) {
    if (!wait_for_events(socket.descriptor(), POLLOUT, deadline)) {
      why = "no answer";
      return false;
    }
    socklen_t size = sizeof(error);
    ::getsockopt(socket.descriptor(), SOL_SOCKET, SO_ERROR, &error, &size);
  }
  why = std::strerror(error);
  return error == 0;
}

}  // namespace

int milliseconds_until(Deadline deadline) {
  using std::chrono::milliseconds;
  const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<long long>(left, 0, 1'000'000));
}

Socket::Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

Socket& Socket::operator=(Socket&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

void Socket::close() {
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
}

Socket Socket::listen_at(const std::string& address, int port) {
  std::string why;
  const AddressList addresses = look_up(address, port, AI_PASSIVE, why);
  for (const addrinfo* to = addresses.get(); to != nullptr; to = to->ai_next) {
    Socket socket = open_for(*to);
    if (!socket) continue;
    set_option(socket, SOL_SOCKET, SO_REUSEADDR);
    if (::bind(socket.descriptor(), to->ai_addr, to->ai_addrlen) == 0 &&
        ::listen(socket.descriptor(), SOMAXCONN) == 0)
      return socket;
    why = std::strerror(errno);
  }
  fail_input(
      "rank 0 cannot listen at {}:{} ({}). MASTER_ADDR must be an address of rank 0's machine, and "
      "the port must be free there: TESSERA_RENDEZVOUS_PORT sets another",
      address, port, why);
}

Socket Socket::connect_to(const std::string& address, int port, Deadline deadline,
                          std::string& why) {
  const AddressList addresses = look_up(address, port, 0, why);
  for (const addrinfo* to = addresses.get(); to != nullptr; to = to->ai_next) {
    Socket socket = open_for(*to);
    if (!socket || !try_connect(socket, *to, deadline, why)) continue;
    set_option(socket, IPPROTO_TCP, TCP_NODELAY);
    set_option(socket, SOL_SOCKET, SO_KEEPALIVE);
    return socket;
  }
  return {};
}

Socket Socket::accept(std::string& peer) const {
  sockaddr_storage from{};
  socklen_t size = sizeof(from);
  Socket taken(::accept4(descriptor_, reinterpret_cast<sockaddr*>(&from), &size,
                         SOCK_NONBLOCK | SOCK_CLOEXEC));
  check(taken || (errno != EMFILE && errno != ENFILE),
        "rank 0 cannot take another connection: too many open files. Raise the limit (ulimit -n)");
  if (!taken) return {};
  char host[NI_MAXHOST] = "?";
  ::getnameinfo(reinterpret_cast<sockaddr*>(&from), size, host, sizeof(host), nullptr, 0,
                NI_NUMERICHOST);
  peer = host;
  set_option(taken, IPPROTO_TCP, TCP_NODELAY);
  set_option(taken, SOL_SOCKET, SO_KEEPALIVE);
  return taken;
}

bool Socket::send_all(std::span<const std::byte> bytes, Deadline deadline) const {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
    } else if (errno != EINTR) {
      if (errno != EAGAIN || !wait_for_events(descriptor_, POLLOUT, deadline)) return false;
    }
  }
  return true;
}

Socket::Received Socket::receive_some(std::span<std::byte> bytes, std::size_t& count) const {
  ssize_t got = 0;
  do {
    got = ::recv(descriptor_, bytes.data(), bytes.size(), 0);
  } while (got < 0 && errno == EINTR);
  count = got > 0 ? static_cast<std::size_t>(got) : 0;
  if (got > 0) return Received::some;
  return got < 0 && errno == EAGAIN ? Received::nothing_yet : Received::closed;
}

bool Socket::receive_all(std::span<std::byte> bytes, Deadline deadline) const {
  while (!bytes.empty()) {
    std::size_t count = 0;
    const Received received = receive_some(bytes, count);
    if (received == Received::closed) return false;
    if (received == Received::nothing_yet && !wait_for_events(descriptor_, POLLIN, deadline))
      return false;
    bytes = bytes.subspan(count);
  }
  return true;
}

}  // namespace tessera
