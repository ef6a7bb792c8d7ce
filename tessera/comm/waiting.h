// Measures how long communication holds a rank up, for reports: a communicator around another.
#pragma once

#include <memory>

#include "tessera/comm/communicator.h"

namespace tessera {

/// What communication took of a rank's time: what did not go on beside its own work. A rank that
/// comes early to a call waits for the others, and that counts, too.
struct ExposedTime {
  double seconds = 0;
};

/// Passes every call on to `inner` and adds to `time`, which must outlive it and its Works, how
/// long the host was inside calls and waits for Works. So do groups that are split off, but for
/// groups of one, which communicate nothing. Only communication between CPUs is measured: on the
/// stream of a GPU the host does not wait, so those calls are passed on and not counted.
std::shared_ptr<Communicator> make_waiting_communicator(std::shared_ptr<Communicator> inner,
                                                        ExposedTime& time);

}  // namespace tessera
