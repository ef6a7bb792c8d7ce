// Measures exposed communication time for reports: a communicator that wraps another.
#pragma once

#include <memory>

#include "tessera/comm/communicator.h"

namespace tessera {

/// Exposed communication time of a rank: the time that did not overlap with its own work. It
/// includes waiting for ranks that arrive later at a call.
struct ExposedTime {
  double seconds = 0;
};

/// Forwards every call to `inner` and adds to `time` how long the host was inside calls and waits
/// for Works. `time` must outlive the communicator and its Works. Groups that are split off are
/// measured too, except groups of one, which do not communicate. Only communication between CPUs is
/// measured: on a GPU stream the host does not wait, so those calls are forwarded and not counted.
std::shared_ptr<Communicator> make_waiting_communicator(std::shared_ptr<Communicator> inner,
                                                        ExposedTime& time);

}  // namespace tessera
