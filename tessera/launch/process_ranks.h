// This process as one rank of several that a launcher started.
#pragma once

#include <functional>

#include "tessera/launch/launch.h"

namespace tessera {

/// Under mpirun or srun: communicates over MPI, and between GPUs over NCCL. A failure ends the job.
int run_mpi_rank(const LaunchOptions& options, const Environment& environment,
                 const std::function<void(Rank&)>& body);

/// Under torchrun: the ranks meet at its address and communicate over NCCL.
int run_torchrun_rank(const LaunchOptions& options, const Environment& environment,
                      const std::function<void(Rank&)>& body);

/// The GPU of a rank among those that it can use. Throws InputError if ranks would share one.
int gpu_of_rank(const Environment& environment, int gpus, const Variables& variables);

}  // namespace tessera
