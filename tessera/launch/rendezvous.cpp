#include "tessera/launch/rendezvous.h"

#include <algorithm>
#include <string_view>
#include <thread>

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

  std::vector<std::byte> meet() {
    std::vector<std::byte> data;
    for (milliseconds pause = kFirstPause; !try_once(data);
         pause = std::min(2 * pause, kLongestPause)) {
      check(Clock::now() + pause < deadline_,
            "rank {} did not reach rank 0 at {}:{} within {} s: {}. Is rank 0 running, and "
            "may this machine connect to that port?",
            options_.rank, options_.address, options_.port, options_.timeout.count() / 1000, why_);
      std::this_thread::sleep_for(pause);
    }
    return data;
  }

 private:
  bool try_once(std::vector<std::byte>& data) {
    const Deadline introduction = std::min(deadline_, Clock::now() + options_.introduction);
    const Socket socket = Socket::connect_to(options_.address, options_.port, introduction, why_);
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
    return socket.send_all(hello.to_bytes(), introduction) &&
           hear_answer(socket, *challenge, hello, data);
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

std::vector<std::byte> rendezvous(const RendezvousOptions& options,
                                  std::span<const std::byte> data) {
  check(options.rank >= 0 && options.rank < options.size, "rendezvous: rank {} of {}", options.rank,
        options.size);
  if (options.rank > 0) return Guest(options).meet();
  check(data.size() <= AnswerHeader::kMostBytes, "a rendezvous carries at most {} bytes, got {}",
        AnswerHeader::kMostBytes, data.size());
  if (options.size > 1) RendezvousHost(options).receive_all_and_answer(data);
  return {data.begin(), data.end()};
}

}  // namespace tessera
