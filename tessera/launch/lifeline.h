// Signs of life where no launcher's library gives them. Rank 0 and each other rank tell each other
// every second that they live, over the connection by which they met. A process that is stopped or
// gone is missed there, rank 0 ends, and then all others miss rank 0: whatever a rank waits for,
// and however long, it does not wait for the dead.
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
    /// How long a process may be silent. Its own thread speaks, whatever else it does.
    std::chrono::milliseconds silence_limit{15'000};
    /// How long the launcher may take to end this process after another one has gone.
    std::chrono::milliseconds grace{10'000};
  };
  /// Gets the reason, once, on the lifeline's thread; it is to end the process.
  using Lost = std::function<void(const std::string& reason)>;

  Lifeline(std::vector<Connection> connections, const Options& options, Lost lost);
  /// Tells the others that this process ends in order.
  ~Lifeline();
  Lifeline(const Lifeline&) = delete;
  Lifeline& operator=(const Lifeline&) = delete;

 private:
  struct Peer {
    Connection connection;
    bool left = false;    // it said goodbye
    bool closed = false;  // it is gone
    LiveTimer since;      // it was heard of, or was gone
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
