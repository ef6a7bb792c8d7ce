// Rank 0's side of a rendezvous.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tessera/launch/rendezvous.h"
#include "tessera/launch/rendezvous_frames.h"
#include "tessera/launch/socket.h"

namespace tessera {

/// Waits for connections without blocking on any of them. A connection is a visitor until it has
/// authenticated itself; then it takes its rank's seat and waits until all seats are taken.
class RendezvousHost {
 public:
  explicit RendezvousHost(const RendezvousOptions& options);

  /// Returns the connections when every rank has arrived and has been sent `data`. Errors before
  /// that are reported to the ranks that have arrived, and thrown.
  std::vector<Connection> receive_all_and_answer(std::span<const std::byte> data);

 private:
  struct Visitor {
    Socket socket;
    std::string peer;
    Deadline deadline;
    Challenge challenge;
    std::vector<std::byte> heard;
  };
  struct Seat {
    Socket socket;
    std::string peer;
    Challenge challenge;
    Hello hello;
  };

  void receive_all();
  void wait_for_news();
  void take_visitors();
  void hear(Visitor& visitor);
  void judge(Visitor& visitor, const Hello& hello);
  void drop(Visitor& visitor, const char* why);
  void clear_seats_of_the_gone();
  void answer_all(Verdict verdict, std::span<const std::byte> payload);
  static void answer(const Seat& seat, Verdict verdict, std::span<const std::byte> payload,
                     const std::string& secret);
  bool all_came() const;
  std::string missing() const;

  const RendezvousOptions& options_;
  Deadline deadline_;
  Socket listener_;
  std::vector<Visitor> visitors_;           // oldest first
  std::vector<std::optional<Seat>> seats_;  // by rank; rank 0 has none
  int dropped_ = 0;
  std::string last_dropped_;
};

}  // namespace tessera
