// Heartbeats for launchers without a library that has them. Rank 0 and each other rank exchange one
// every second, over the connection of their rendezvous. If a process is stopped or dead, rank 0
// notices and ends, and then all others notice that rank 0 has gone. No rank waits for a dead one,
// whatever it is doing.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tessera/comm/mpi/live_timer.h"
#include "tessera/launch/rendezvous.h"

namespace tessera {

class Lifeline {
 public:
  struct Options {
    std::chrono::milliseconds interval{1'000};
    /// How long a process may be silent. A thread of its own sends the heartbeats.
    std::chrono::milliseconds silence_limit{15'000};
    /// How long the launcher may take to end this process after another one has exited.
    std::chrono::milliseconds grace{10'000};
  };
  /// Called once with the reason, on the lifeline's thread; it must end the process.
  using Lost = std::function<void(const std::string& reason)>;

  Lifeline(std::vector<Connection> connections, const Options& options, Lost lost);
  /// Tells the others that this process ends normally.
  ~Lifeline();
  Lifeline(const Lifeline&) = delete;
  Lifeline& operator=(const Lifeline&) = delete;

 private:
  struct Peer {
    Connection connection;
    bool left = false;    // it has left normally
    bool closed = false;  // its connection is closed
    LiveTimer since;      // since it was last heard of, or was gone
  };

  void keep_watch();
  static void hear(Peer& peer);
  void say(std::byte what) const;
  std::optional<std::string> find_lost();

  const Options options_;
  const Lost lost_;
  std::vector<Peer> peers_;

  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;  // guarded
  std::thread thread_;
};

}  // namespace tessera
