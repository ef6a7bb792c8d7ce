// The communicator over one NCCL lane.
#pragma once

#include <memory>

#include "tessera/comm/communicator.h"
#include "tessera/comm/cuda/nccl_lane.h"

namespace tessera {

std::shared_ptr<Communicator> make_nccl_communicator(std::shared_ptr<NcclLane> lane);

}  // namespace tessera
