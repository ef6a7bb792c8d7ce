#include "tessera/launch/lifeline.h"

#include <array>
#include <utility>

#include "tessera/base/check.h"

namespace tessera {
namespace {

constexpr std::byte kAlive{1};
constexpr std::byte kGoodbye{2};

}  // namespace

Lifeline::Lifeline(std::vector<Connection> connections, const Options& options, Lost lost)
    : options_(options), lost_(std::move(lost)) {
  for (Connection& each : connections) peers_.push_back({std::move(each), false, false, {}});
  thread_ = std::thread([this] { keep_watch(); });
}

Lifeline::~Lifeline() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
  say(kGoodbye);
}

void Lifeline::keep_watch() {
  std::unique_lock lock(mutex_);
  do {
    say(kAlive);
    for (Peer& peer : peers_) hear(peer);
    if (const std::optional<std::string> reason = find_lost()) {
      lock.unlock();
      return lost_(*reason);
    }
  } while (!wake_.wait_for(lock, options_.interval, [this] { return stopping_; }));
}

// One byte: where it does not fit, the other side has not read for long, or is gone.
void Lifeline::say(std::byte what) const {
  for (const Peer& peer : peers_)
    if (!peer.left && !peer.closed)
      peer.connection.socket.send_all(std::span(&what, 1), Clock::now());
}

void Lifeline::hear(Peer& peer) {
  peer.since.look();
  std::array<std::byte, 64> words;
  std::size_t count = 0;
  while (!peer.left && !peer.closed) {
    const Socket::Received received = peer.connection.socket.receive_some(words, count);
    if (received == Socket::Received::nothing_yet) return;
    peer.since.restart();
    peer.closed = received == Socket::Received::closed;
    if (count > 0) peer.left = words[count - 1] == kGoodbye;
  }
}

std::optional<std::string> Lifeline::find_lost() {
  using std::chrono::duration;
  for (const Peer& peer : peers_) {
    const auto passed = peer.since.passed();
    if (peer.left || passed <= (peer.closed ? options_.grace : options_.silence_limit)) continue;
    if (peer.closed)
      return fmt::format("rank {} has ended before this rank had: see its output",
                         peer.connection.rank);
    return fmt::format(
        "rank {} has not been heard of for {:.0f} s: it may have died or been stopped",
        peer.connection.rank, duration<double>(passed).count());
  }
  return std::nullopt;
}

}  // namespace tessera
