// Starts ranks, or finds out as which rank this process was started, and runs a body on each. Knows
// nothing of training.
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
  int nproc = 1;           ///< ranks to start; 1 under a launcher: as many as it started
  bool processes = false;  ///< start them as processes, with mpirun, and not as threads
  DeviceKind device = DeviceKind::cpu;
  int threads = 0;                    ///< CPU threads of a rank; 0: its share of the cores
  std::chrono::seconds timeout{600};  ///< how long ranks wait for each other
  /// What all ranks must have been given alike; processes compare it, line by line.
  std::string configuration;
  /// Whether the body looks at Rank::signals; otherwise signals end the process.
  bool watch_signals = false;
};

/// How ranks come to be.
enum class LaunchWay {
  alone,      ///< one rank, this thread
  threads,    ///< of this process, over shared memory
  mpirun,     ///< this process starts the ranks and waits for them
  mpi,        ///< this process is a rank of mpirun or srun
  rendezvous  ///< this process is a rank of torchrun
};

/// Throws InputError when the options do not fit what the launcher did.
LaunchWay choose_way(const LaunchOptions& options, const Environment& environment);

/// Runs `body` on every rank, and returns this process's exit code when all are done: 0, or what
/// mpirun returned. `arguments` (without the program's name) are for processes that are started.
///
/// A rank that fails ends all others. Its exception is thrown, for threads with its rank in front;
/// under a launcher the job ends at once instead, with report_failure's message and exit code.
///
/// Ranks that share cores are tied to cores of their own, if there are enough; processes compare
/// their builds and the configuration.
int launch(const LaunchOptions& options, const std::vector<std::string>& arguments,
           const std::function<void(Rank&)>& body);

/// Says on standard error why the program ends ("tessera: rank 3: text", without a rank when there
/// are no others), and returns its exit code: 2 for an InputError, 1 otherwise. When all ranks of a
/// launcher fail alike, the first speaks, and the launcher ends the others before they do.
int report_failure(const std::exception& error);

/// Runs `body` on `ranks` threads of this process. The first exception of a rank stops the others
/// and is rethrown. Nothing is tied to cores.
void run_ranks(int ranks, int threads_per_rank, const std::function<void(Rank&)>& body);

/// max(1, cores / ranks), for the cores that this process may use.
int default_threads(int ranks);

}  // namespace tessera
