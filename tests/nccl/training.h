// Training over NCCL, against one rank on the same GPU.
#pragma once

#include <memory>

#include "tessera/comm/communicator.h"

namespace tessera::test {

/// Adds tests in which the ranks of `world` train together to those that gtest runs.
void register_nccl_trainings(std::shared_ptr<Communicator> world, Device device);

}  // namespace tessera::test
