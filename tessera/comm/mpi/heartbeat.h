// Signs of life. Every second each process says to the next in the ring that it lives, so a process
// that is stopped or gone is missed by its neighbour, however long others compute. One that ends
// says so to all. Belongs to the progress thread.
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

  /// Hears what the others say, and speaks when it is time.
  void tick(Clock::time_point now);
  /// When this process must speak again.
  Clock::time_point next_beat() const { return next_beat_; }

  /// The rank that this process listens to.
  int neighbour() const { return (rank_ + size_ - 1) % size_; }
  /// For how long it has not been heard of.
  Clock::duration silence() const { return silence_.passed(); }

  /// Tells all that this process will make no further call.
  void say_goodbye();
  bool has_left(int rank) const { return left_[static_cast<std::size_t>(rank)]; }
  /// Who has not left, besides this process.
  std::vector<int> others() const;

 private:
  void listen();
  void hear();
  void beat();

  int rank_, size_;
  Clock::time_point next_beat_;
  LiveTimer silence_;
  std::vector<bool> left_;
  int heard_ = 0;                           // what the receive below writes
  MPI_Request hearing_ = MPI_REQUEST_NULL;  // from any rank
  MpiRequests spoken_;                      // the last beat
  MpiRequests goodbyes_;
};

}  // namespace tessera
