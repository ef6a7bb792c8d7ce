// Counts the calls and bytes that a rank communicates, for tests and reports: a communicator that
// wraps another.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "tessera/comm/communicator.h"

namespace tessera {

/// Totals of one kind of call ("all_reduce", "send", ...).
struct CommCount {
  std::int64_t calls = 0;
  std::int64_t bytes = 0;  ///< size of the larger of input and output
  bool operator==(const CommCount&) const = default;
};
using CommCounts = std::map<std::string, CommCount>;

/// Forwards every call to `inner` and adds it to `counts`, which must outlive the communicator.
/// Groups that are split off are counted too, except groups of one, which do not communicate.
std::shared_ptr<Communicator> make_recording_communicator(std::shared_ptr<Communicator> inner,
                                                          CommCounts& counts);

}  // namespace tessera
