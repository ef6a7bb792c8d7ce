#include "tessera/comm/mpi/heartbeat.h"

#include "tessera/comm/mpi/tags.h"

namespace tessera {
namespace {

constexpr std::chrono::seconds kInterval{1};

// The messages. MPI reads the memory of a send until it is done, so these are never freed.
constexpr int kAlive = 1;
constexpr int kGoodbye = 2;

}  // namespace

MpiHeartbeat::MpiHeartbeat(int rank, int size)
    : rank_(rank),
      size_(size),
      next_beat_(Clock::now()),
      left_(static_cast<std::size_t>(size), false) {
  if (size_ > 1) listen();
}

MpiHeartbeat::~MpiHeartbeat() {
  if (hearing_ == MPI_REQUEST_NULL) return;
  MPI_Cancel(&hearing_);
  MPI_Request_free(&hearing_);
}

void MpiHeartbeat::listen() {
  check_mpi(MPI_Irecv(&heard_, sizeof(heard_), MPI_BYTE, MPI_ANY_SOURCE, kHeartbeatTag,
                      MPI_COMM_WORLD, &hearing_),
            "MPI_Irecv");
}

void MpiHeartbeat::hear() {
  for (int flag = 1; flag != 0;) {
    MPI_Status status;
    check_mpi(MPI_Test(&hearing_, &flag, &status), "MPI_Test");
    if (flag == 0) return;
    if (status.MPI_SOURCE == neighbour()) silence_.restart();
    if (heard_ == kGoodbye) left_[static_cast<std::size_t>(status.MPI_SOURCE)] = true;
    listen();
  }
}

void MpiHeartbeat::beat() {
  spoken_.advance();
  // A neighbour that takes nothing needs no second message.
  if (spoken_.done()) spoken_.send(&kAlive, sizeof(kAlive), (rank_ + 1) % size_, kHeartbeatTag);
}

void MpiHeartbeat::tick(Clock::time_point now) {
  if (size_ == 1) {
    next_beat_ = now + kInterval;
    return;
  }
  silence_.look(now);
  hear();
  goodbyes_.advance();
  if (now < next_beat_) return;
  next_beat_ = now + kInterval;
  beat();
}

void MpiHeartbeat::say_goodbye() {
  for (int r = 0; r < size_; ++r)
    if (r != rank_) goodbyes_.send(&kGoodbye, sizeof(kGoodbye), r, kHeartbeatTag);
}

std::vector<int> MpiHeartbeat::others() const {
  std::vector<int> ranks;
  for (int r = 0; r < size_; ++r)
    if (r != rank_ && !has_left(r)) ranks.push_back(r);
  return ranks;
}

}  // namespace tessera
