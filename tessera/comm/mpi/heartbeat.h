// Heartbeats. Each process sends one to the next process of a ring every second, so a process that
// is stopped or dead is noticed by its neighbour, however long other ranks compute. A process that
// exits tells all others. Used by the progress thread.
#pragma once

#include <mpi.h>

#include <chrono>
#include <vector>

#include "tessera/comm/mpi/live_timer.h"
#include "tessera/comm/mpi/requests.h"

namespace tessera {

class MpiHeartbeat {
 public:
  using Clock = LiveTimer::Clock;

  MpiHeartbeat(int rank, int size);
  ~MpiHeartbeat();
  MpiHeartbeat(const MpiHeartbeat&) = delete;
  MpiHeartbeat& operator=(const MpiHeartbeat&) = delete;

  /// Receives heartbeats, and sends one if it is due.
  void tick(Clock::time_point now);
  /// When the next heartbeat is due.
  Clock::time_point next_beat() const { return next_beat_; }

  /// The rank that this process monitors.
  int neighbour() const { return (rank_ + size_ - 1) % size_; }
  /// The time since its last heartbeat.
  Clock::duration silence() const { return silence_.passed(); }

  /// Tells all ranks that this process makes no further calls.
  void say_goodbye();
  bool has_left(int rank) const { return left_[static_cast<std::size_t>(rank)]; }
  /// The other processes that have not left.
  std::vector<int> others() const;

 private:
  void listen();
  void hear();
  void beat();

  int rank_, size_;
  Clock::time_point next_beat_;
  LiveTimer silence_;
  std::vector<bool> left_;
  int heard_ = 0;                           // target of the pending receive
  MPI_Request hearing_ = MPI_REQUEST_NULL;  // from any rank
  MpiRequests spoken_;                      // the last heartbeat
  MpiRequests goodbyes_;
};

}  // namespace tessera
