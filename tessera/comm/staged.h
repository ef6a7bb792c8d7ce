// Lets a communicator of host memory serve the memory of a GPU.
#pragma once

#include <memory>

#include "tessera/comm/communicator.h"

namespace tessera {

/// Calls with a stream of the CPU go to `inner` as they are. Others are done inside the call: the
/// stream is waited for, inputs are copied to the host, `inner` works there, and outputs are copied
/// back. So results are those of the CPU to the bit. The host blocks, which a graph cannot capture.
std::shared_ptr<Communicator> make_staged_communicator(std::shared_ptr<Communicator> inner);

}  // namespace tessera
