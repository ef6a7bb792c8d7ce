// Counts what a rank communicates, for tests and reports: a communicator around another.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "tessera/comm/communicator.h"

namespace tessera {

/// What was asked for under one name ("all_reduce", "send", ...).
struct CommCount {
  std::int64_t calls = 0;
  std::int64_t bytes = 0;  ///< of the larger of input and output
  bool operator==(const CommCount&) const = default;
};
using CommCounts = std::map<std::string, CommCount>;

/// Passes every call on to `inner` and adds it to `counts`, which must outlive it. So do groups
/// that are split off, but for groups of one, which communicate nothing.
std::shared_ptr<Communicator> make_recording_communicator(std::shared_ptr<Communicator> inner,
                                                          CommCounts& counts);

}  // namespace tessera
