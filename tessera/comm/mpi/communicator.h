// The communicator of a group of processes.
#pragma once

#include <memory>

#include "tessera/comm/communicator.h"
#include "tessera/comm/mpi/group.h"

namespace tessera {

/// A group of one needs no MPI.
std::shared_ptr<Communicator> make_mpi_communicator(std::shared_ptr<MpiGroup> group);

}  // namespace tessera
