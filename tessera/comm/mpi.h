// Ranks as processes over MPI, in CPU memory (GPU memory is staged through the host, staged.h).
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "tessera/comm/communicator.h"

namespace tessera {

class MpiEngine;

/// This process's part of an MPI job. One per process, and only once: MPI cannot be restarted after
/// it has been finalised.
///
/// Communicators execute calls in the order in which they are made, on their own thread, which
/// sleeps when idle; only sends do not wait for earlier calls. Results have the same bits as
/// between ranks that are threads. Errors are thrown by Work::wait (those that this rank can detect
/// alone, by the call), and all calls that were made before the first error was thrown fail with
/// it:
/// - ranks that make different calls all get an error that names them;
/// - a rank that is late for a call, or has exited, is named in the errors of the ranks that wait;
/// - a rank that is stopped or dead ends the whole job: each process monitors its neighbour.
/// After a mismatch of calls all ranks fail, and their groups can be used again. After any other
/// error, which the other ranks may not have seen, destroy the world: calls would no longer match.
class MpiWorld {
 public:
  struct Options {
    /// How long ranks wait for each other in a call (and for the next part of its data), and at the
    /// end of the program.
    std::chrono::seconds call_timeout{600};
    /// How long a process may send no heartbeat before the job is ended. A thread of its own sends
    /// one every second, whatever the process does. A process stopped in a debugger sends none.
    std::chrono::seconds silence_limit{15};
  };

  /// Starts MPI, and returns when all ranks have started. Without mpirun it is a job of one rank.
  explicit MpiWorld(const Options& options);
  /// Finalises MPI when all ranks have arrived here. Communicators that live longer reject every
  /// call.
  ~MpiWorld();
  MpiWorld(const MpiWorld&) = delete;
  MpiWorld& operator=(const MpiWorld&) = delete;

  int rank() const;
  int size() const;
  /// The index of this process among those on its host, and their number.
  int local_rank() const;
  int local_size() const;

  /// The group of all ranks.
  std::shared_ptr<Communicator> communicator();

  /// Prints "tessera: rank R: message" and ends every process of the job; mpirun returns
  /// `exit_code`.
  [[noreturn]] void abort(const std::string& message, int exit_code);

 private:
  std::shared_ptr<MpiEngine> engine_;
  std::shared_ptr<Communicator> communicator_;
};

}  // namespace tessera
