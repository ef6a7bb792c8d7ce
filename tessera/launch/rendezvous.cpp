#include "tessera/launch/rendezvous.h"

#include <algorithm>
#include <string_view>
#include <thread>
#include <utility>

#include "tessera/base/check.h"
#include "tessera/launch/rendezvous_frames.h"
#include "tessera/launch/rendezvous_host.h"
#include "tessera/launch/socket.h"

namespace tessera {
namespace {

using std::chrono::milliseconds;

// Rank 0 may answer when its own time is over, which began later than ours.
constexpr milliseconds kGrace{5'000};
constexpr milliseconds kFirstPause{20}, kLongestPause{1'000};

// A rank that looks for rank 0.
class Guest {
 public:
  explicit Guest(const RendezvousOptions& options)
      : options_(options), process_(random_nonce()), deadline_(Clock::now() + options.timeout) {}

  RendezvousResult meet() {
    RendezvousResult result;
    for (milliseconds pause = kFirstPause; !try_once(result);
         pause = std::min(2 * pause, kLongestPause)) {
      check(Clock::now() + pause < deadline_,
            "rank {} did not reach rank 0 at {}:{} within {} s: {}. Is rank 0 running, and "
            "may this machine connect to that port?",
            options_.rank, options_.address, options_.port, options_.timeout.count() / 1000, why_);
      std::this_thread::sleep_for(pause);
    }
    return result;
  }

 private:
  bool try_once(RendezvousResult& result) {
    const Deadline introduction = std::min(deadline_, Clock::now() + options_.introduction);
    Socket socket = Socket::connect_to(options_.address, options_.port, introduction, why_);
    if (!socket) return false;
    std::array<std::byte, Challenge::kBytes> bytes;
    const bool greeted = socket.receive_all(bytes, introduction);
    const std::optional<Challenge> challenge =
        greeted ? Challenge::from_bytes(bytes) : std::nullopt;
    if (!challenge) {
      why_ = "another program listens there";
      return false;
    }
    Hello hello{static_cast<std::uint32_t>(options_.rank),
                static_cast<std::uint32_t>(options_.size),
                process_,
                random_nonce(),
                {}};
    hello.proof = hello.transcript(*challenge).prove(options_.secret);
    if (!socket.send_all(hello.to_bytes(), introduction) ||
        !hear_answer(socket, *challenge, hello, result.data))
      return false;
    result.connections.push_back({0, std::move(socket)});
    return true;
  }

  bool hear_answer(const Socket& socket, const Challenge& challenge, const Hello& hello,
                   std::vector<std::byte>& data) {
    why_ = "it closed the connection: it was started with another secret, or has ended";
    std::array<std::byte, AnswerHeader::kBytes> header_bytes;
    if (!socket.receive_all(header_bytes, deadline_ + kGrace)) return false;
    const std::optional<AnswerHeader> header = AnswerHeader::from_bytes(header_bytes);
    if (!header) return false;
    data.resize(header->bytes);
    Proof proof;
    const Deadline soon = Clock::now() + options_.introduction;
    if (!socket.receive_all(data, soon) || !socket.receive_all(proof, soon)) return false;
    if (!answer_transcript(challenge, hello, header->verdict, data).holds(options_.secret, proof)) {
      why_ = "its answer is not authentic: it was started with another secret";
      return false;
    }
    const std::string_view text(reinterpret_cast<const char*>(data.data()), data.size());
    check_input(header->verdict != Verdict::started_wrongly, "{}", text);
    check(header->verdict == Verdict::welcome, "stopped, since rank 0 did: {}", text);
    return true;
  }

  const RendezvousOptions& options_;
  Nonce process_;
  Deadline deadline_;
  std::string why_ = "no answer";
};

}  // namespace

RendezvousResult rendezvous(const RendezvousOptions& options, std::span<const std::byte> data) {
  check(options.rank >= 0 && options.rank < options.size, "rendezvous: rank {} of {}", options.rank,
        options.size);
  if (options.rank > 0) return Guest(options).meet();
  check(data.size() <= AnswerHeader::kMostBytes, "a rendezvous carries at most {} bytes, got {}",
        AnswerHeader::kMostBytes, data.size());
  RendezvousResult result{{data.begin(), data.end()}, {}};
  if (options.size > 1) result.connections = RendezvousHost(options).receive_all_and_answer(data);
  return result;
}

}  // namespace tessera
