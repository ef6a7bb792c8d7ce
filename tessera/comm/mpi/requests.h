// Messages between processes that are under way. All of this belongs to the progress thread
// (engine.h): nobody else calls MPI.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <vector>

namespace tessera {

/// Throws MPI's own text unless `code` says success.
void check_mpi(int code, const char* call);

/// Sends and receives that were started and are waited for together. Ranks are those of the job.
/// Between two ranks, messages with one tag are received in the order in which they were sent.
class MpiRequests {
 public:
  MpiRequests() = default;
  /// Gives up what is not done. A send that nobody receives may still read its memory.
  ~MpiRequests();
  MpiRequests(MpiRequests&&) = default;
  MpiRequests& operator=(MpiRequests&&) = delete;

  // Any number of bytes; none is no message at all.
  void send(const void* data, std::size_t bytes, int to, int tag);
  void receive(void* data, std::size_t bytes, int from, int tag);

  /// Looks what has been done since the last call, without waiting; true if something was.
  bool advance();
  bool done() const { return open_ == 0; }
  /// The ranks whose messages are not done, in order and each once.
  std::vector<int> missing() const;
  /// True if f(rank) is for one of them.
  template <class F>
  bool any_missing(F&& f) const {
    for (std::size_t i = 0; i < requests_.size(); ++i)
      if (requests_[i] != MPI_REQUEST_NULL && f(peers_[i])) return true;
    return false;
  }

 private:
  void add(MPI_Request request, int peer);

  std::vector<MPI_Request> requests_;  // MPI_REQUEST_NULL where done
  std::vector<int> peers_;             // of the requests
  std::vector<int> finished_;          // MPI's answer, kept to be used again
  std::size_t open_ = 0;
};

}  // namespace tessera
