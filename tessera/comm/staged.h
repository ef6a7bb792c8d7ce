// Makes a communicator for host memory usable with GPU memory, by staging through the host.
#pragma once

#include <memory>

#include "tessera/comm/communicator.h"

namespace tessera {

/// Calls with a CPU stream are forwarded to `inner`. Others are completed inside the call: the
/// stream is synchronised, inputs are copied to the host, `inner` runs there, and outputs are
/// copied back. Results therefore have the same bits as on the CPU. The host blocks, so these calls
/// cannot be captured in a graph.
std::shared_ptr<Communicator> make_staged_communicator(std::shared_ptr<Communicator> inner);

}  // namespace tessera
