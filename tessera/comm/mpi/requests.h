// MPI messages in flight. Used by the progress thread only (engine.h), which makes all MPI calls.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <vector>

namespace tessera {

/// Throws MPI's error text unless `code` is success.
void check_mpi(int code, const char* call);

/// Sends and receives that are waited for together. Ranks are those of the job. Between two ranks,
/// messages with the same tag are received in the order in which they were sent.
class MpiRequests {
 public:
  MpiRequests() = default;
  /// Cancels unfinished requests. A send that is never received may still read its memory.
  ~MpiRequests();
  MpiRequests(MpiRequests&&) = default;
  MpiRequests& operator=(MpiRequests&&) = delete;

  // Any number of bytes; for 0 bytes there is no message.
  void send(const void* data, std::size_t bytes, int to, int tag);
  void receive(void* data, std::size_t bytes, int from, int tag);

  /// Checks for progress since the last call, without waiting; true if there was any.
  bool advance();
  bool done() const { return open_ == 0; }
  /// The ranks with unfinished messages, in order and without duplicates.
  std::vector<int> missing() const;
  /// True if f(rank) is true for one of them.
  template <class F>
  bool any_missing(F&& f) const {
    for (std::size_t i = 0; i < requests_.size(); ++i)
      if (requests_[i] != MPI_REQUEST_NULL && f(peers_[i])) return true;
    return false;
  }

 private:
  void add(MPI_Request request, int peer);

  std::vector<MPI_Request> requests_;  // MPI_REQUEST_NULL if done
  std::vector<int> peers_;             // rank of each request
  std::vector<int> finished_;          // MPI's output, kept for reuse
  std::size_t open_ = 0;
};

}  // namespace tessera
