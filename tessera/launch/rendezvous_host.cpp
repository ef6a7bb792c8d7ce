#include "tessera/launch/rendezvous_host.h"

#include <poll.h>

#include <algorithm>

#include "tessera/base/check.h"
#include "tessera/base/log.h"
#include "tessera/launch/rank.h"

namespace tessera {
namespace {

// More than these at a time, and the oldest makes room: a crowd of silent strangers must not use up
// the process's open files.
constexpr std::size_t kMostVisitors = 256;

Bytes bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

}  // namespace

RendezvousHost::RendezvousHost(const RendezvousOptions& options)
    : options_(options),
      deadline_(Clock::now() + options.timeout),
      listener_(Socket::listen_at(options.address, options.port)),
      seats_(static_cast<std::size_t>(options.size)) {}

std::vector<Connection> RendezvousHost::receive_all_and_answer(std::span<const std::byte> data) {
  try {
    receive_all();
  } catch (const InputError& error) {
    answer_all(Verdict::started_wrongly, bytes_of(error.what()));
    throw;
  } catch (const std::exception& error) {
    answer_all(Verdict::failed, bytes_of(error.what()));
    throw;
  }
  answer_all(Verdict::welcome, data);
  std::vector<Connection> connections;
  for (int r = 1; r < options_.size; ++r)
    connections.push_back({r, std::move(seats_[static_cast<std::size_t>(r)]->socket)});
  return connections;
}

void RendezvousHost::receive_all() {
  while (!all_came()) {
    if (Clock::now() >= deadline_)
      fail("after {} s, {} of {} ranks have not come to {}:{}: {}{}",
           options_.timeout.count() / 1000,
           std::count(seats_.begin() + 1, seats_.end(), std::nullopt), options_.size,
           options_.address, options_.port, missing(),
           dropped_ == 0 ? ""
                         : fmt::format(". {} connections were dropped, the last {}", dropped_,
                                       last_dropped_));
    wait_for_news();
    clear_seats_of_the_gone();
    take_visitors();
    for (Visitor& visitor : visitors_) hear(visitor);
    std::erase_if(visitors_, [](const Visitor& visitor) { return !visitor.socket; });
  }
}

void RendezvousHost::wait_for_news() {
  std::vector<pollfd> waiting{{listener_.descriptor(), POLLIN, 0}};
  Deadline next = deadline_;
  for (const Visitor& visitor : visitors_) {
    waiting.push_back({visitor.socket.descriptor(), POLLIN, 0});
    next = std::min(next, visitor.deadline);
  }
  for (const std::optional<Seat>& seat : seats_)
    if (seat) waiting.push_back({seat->socket.descriptor(), POLLIN, 0});
  ::poll(waiting.data(), waiting.size(), milliseconds_until(next));
}

// Who sits says nothing more; news from there is that the process has ended, or is no rank of ours.
void RendezvousHost::clear_seats_of_the_gone() {
  for (std::optional<Seat>& seat : seats_) {
    std::byte unexpected;
    std::size_t count = 0;
    if (seat && seat->socket.receive_some(std::span(&unexpected, 1), count) !=
                    Socket::Received::nothing_yet)
      seat.reset();
  }
}

void RendezvousHost::take_visitors() {
  std::string peer;
  while (Socket socket = listener_.accept(peer)) {
    Visitor visitor{std::move(socket),
                    peer,
                    Clock::now() + options_.introduction,
                    Challenge{random_nonce()},
                    {}};
    // A new connection has room for these few bytes.
    if (!visitor.socket.send_all(visitor.challenge.to_bytes(), Clock::now())) continue;
    if (visitors_.size() == kMostVisitors) {
      drop(visitors_.front(), "had not said who it was when many others came");
      visitors_.erase(visitors_.begin());
    }
    visitors_.push_back(std::move(visitor));
  }
}

void RendezvousHost::hear(Visitor& visitor) {
  std::array<std::byte, Hello::kBytes> bytes;
  std::size_t count = 0;
  const std::span<std::byte> room = std::span(bytes).first(Hello::kBytes - visitor.heard.size());
  const Socket::Received received = visitor.socket.receive_some(room, count);
  visitor.heard.insert(visitor.heard.end(), bytes.begin(),
                       bytes.begin() + static_cast<std::ptrdiff_t>(count));
  if (visitor.heard.size() == Hello::kBytes) {
    std::ranges::copy(visitor.heard, bytes.begin());
    const std::optional<Hello> hello = Hello::from_bytes(bytes);
    if (!hello) return drop(visitor, "spoke another protocol");
    return judge(visitor, *hello);
  }
  if (received == Socket::Received::closed) return drop(visitor, "left without a word");
  if (Clock::now() >= visitor.deadline) drop(visitor, "did not say who it was");
}

void RendezvousHost::judge(Visitor& visitor, const Hello& hello) {
  if (!hello.transcript(visitor.challenge).holds(options_.secret, hello.proof))
    return drop(visitor, "does not know this run's secret");
  Seat seat{std::move(visitor.socket), visitor.peer, visitor.challenge, hello};
  std::string objection;
  if (hello.size != static_cast<std::uint32_t>(options_.size)) {
    objection = fmt::format("rank {} at {} was started as one of {} ranks, rank 0 as one of {}",
                            hello.rank, seat.peer, hello.size, options_.size);
  } else if (hello.rank == 0 || hello.rank >= hello.size) {
    objection = fmt::format("a second process, at {}, says that it is rank {} of {}", seat.peer,
                            hello.rank, hello.size);
  } else if (const auto& taken = seats_[hello.rank];
             taken && taken->hello.process != hello.process) {
    objection = fmt::format("two processes, at {} and at {}, say that they are rank {}",
                            taken->peer, seat.peer, hello.rank);
  }
  if (!objection.empty()) {
    objection += ". Each rank must be started once, with its own RANK and the same WORLD_SIZE";
    answer(seat, Verdict::started_wrongly, bytes_of(objection), options_.secret);
    fail_input("{}", objection);
  }
  seats_[hello.rank] = std::move(seat);
}

void RendezvousHost::drop(Visitor& visitor, const char* why) {
  last_dropped_ = fmt::format("from {}, which {}", visitor.peer, why);
  if (dropped_++ == 0) log_warning("rendezvous: dropped a connection {}", last_dropped_);
  visitor.socket = Socket();
}

void RendezvousHost::answer_all(Verdict verdict, std::span<const std::byte> payload) {
  for (const std::optional<Seat>& seat : seats_)
    if (seat) answer(*seat, verdict, payload, options_.secret);
}

void RendezvousHost::answer(const Seat& seat, Verdict verdict, std::span<const std::byte> payload,
                            const std::string& secret) {
  const AnswerHeader header{verdict, static_cast<std::uint32_t>(payload.size())};
  const Proof proof = answer_transcript(seat.challenge, seat.hello, verdict, payload).prove(secret);
  const auto header_bytes = header.to_bytes();
  std::vector<std::byte> frame;
  for (const Bytes part : {Bytes(header_bytes), payload, Bytes(proof)})
    frame.insert(frame.end(), part.begin(), part.end());
  // A rank that is gone by now is missed by the first communication.
  seat.socket.send_all(frame, Clock::now() + std::chrono::seconds(1));
}

bool RendezvousHost::all_came() const {
  return std::all_of(seats_.begin() + 1, seats_.end(),
                     [](const std::optional<Seat>& seat) { return seat.has_value(); });
}

std::string RendezvousHost::missing() const {
  std::vector<int> ranks;
  for (int r = 1; r < options_.size; ++r)
    if (!seats_[static_cast<std::size_t>(r)]) ranks.push_back(r);
  return list_of_ranks(ranks);
}

}  // namespace tessera
