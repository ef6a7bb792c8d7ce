// Ranks as processes over MPI, in CPU memory (that of a GPU goes through the host, staged.h).
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "tessera/comm/communicator.h"

namespace tessera {

class MpiEngine;

/// This process's part of an MPI job. There is one per process, once: MPI cannot start again after
/// it has ended.
///
/// Communicators carry out calls in the order in which they are made, on a thread of their own that
/// sleeps when it has nothing to do; only sends do not wait for earlier calls. Results equal those
/// of ranks as threads bit for bit. Errors come out of Work::wait (those that this rank can see
/// alone, out of the call), and calls that were made before the first of them came out fail alike:
/// - ranks that make different calls all get an error that names them;
/// - a rank that does not come to a call in time, or has ended, is named to those who wait for it;
/// - a rank that is stopped or dead ends the whole job: each process listens to its neighbour.
/// When ranks make different calls, all fail, and their groups can be used again. After any other
/// error, which the others may not have seen, drop the world: calls would no longer meet.
class MpiWorld {
 public:
  struct Options {
    /// How long ranks wait for each other in a call (and for the next part of its data), and at the
    /// end of the program.
    std::chrono::seconds call_timeout{600};
    /// How long a process may be silent before the job ends. Its own thread speaks every second,
    /// whatever else it does. A process in a debugger is silent, too.
    std::chrono::seconds silence_limit{15};
  };

  /// Starts MPI, and returns when all ranks have. Without mpirun it is a job of one rank.
  explicit MpiWorld(const Options& options);
  /// Ends MPI when all ranks have come here. Communicators that live longer refuse every call.
  ~MpiWorld();
  MpiWorld(const MpiWorld&) = delete;
  MpiWorld& operator=(const MpiWorld&) = delete;

  int rank() const;
  int size() const;
  /// The place of this process among those of its host, and their number.
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
