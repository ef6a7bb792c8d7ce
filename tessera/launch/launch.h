// Starts ranks, or determines which rank this process is, and runs a function on each. Independent
// of training.
#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "tessera/launch/environment.h"
#include "tessera/launch/rank.h"

namespace tessera {

struct LaunchOptions {
  int nproc = 1;           ///< ranks to start; 1 under a launcher, which has started them
  bool processes = false;  ///< start them as processes with mpirun instead of as threads
  DeviceKind device = DeviceKind::cpu;
  int threads = 0;                    ///< CPU threads of a rank; 0: its share of the cores
  std::chrono::seconds timeout{600};  ///< timeout of communication between ranks
  /// Text that must be equal on all ranks; processes compare it line by line.
  std::string configuration;
  /// Whether the function checks Rank::signals; otherwise signals end the process.
  bool watch_signals = false;
};

/// How ranks are run.
enum class LaunchWay {
  alone,      ///< one rank, on this thread
  threads,    ///< threads of this process, over shared memory
  mpirun,     ///< this process starts the ranks with mpirun and waits for them
  mpi,        ///< this process is a rank of mpirun or srun
  rendezvous  ///< this process is a rank of torchrun
};

/// Throws InputError if the options contradict the launcher.
LaunchWay choose_way(const LaunchOptions& options, const Environment& environment);

/// Runs `body` on every rank and returns this process's exit code: 0, or that of mpirun.
/// `arguments` (without the program's name) are passed to processes that are started.
///
/// A rank that fails ends all others. Its exception is thrown, for threads with the rank in front
/// of the message; under a launcher the job ends at once instead, with the message and exit code of
/// report_failure.
///
/// Ranks that share cores are pinned to cores of their own, if there are enough. Processes compare
/// their builds and the configuration.
int launch(const LaunchOptions& options, const std::vector<std::string>& arguments,
           const std::function<void(Rank&)>& body);

/// Prints the error on standard error ("tessera: rank 3: text", without a rank if there is only
/// one) and returns the exit code: 2 for an InputError, 1 otherwise. If all ranks of a launcher
/// fail alike, only the first prints it, and the launcher ends the others.
int report_failure(const std::exception& error);

/// Runs `body` on `ranks` threads of this process. The first exception of a rank stops the others
/// and is rethrown. Threads are not pinned.
void run_ranks(int ranks, int threads_per_rank, const std::function<void(Rank&)>& body);

/// max(1, cores / ranks), for the cores that this process may use.
int default_threads(int ranks);

}  // namespace tessera
