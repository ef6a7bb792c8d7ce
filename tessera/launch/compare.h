// Cross-rank consistency check at start-up: finds ranks that were started with different settings.
#pragma once

#include <string>
#include <vector>

#include "tessera/comm/communicator.h"

namespace tessera {

/// The texts of all ranks, in rank order. `device` is the device of the communicator's memory.
std::vector<std::string> gather_texts(Communicator& world, const std::string& text,
                                      Device device = {});

/// Throws the same InputError on all ranks unless all give the same text. It names the ranks that
/// differ from rank 0, and the first differing line of each. `what` names the text:
/// "configuration". Ranks without a text are not compared; rank 0 must have one.
void compare_across(Communicator& world, const std::string& what, const std::string& text,
                    Device device = {});

/// The program's version, build settings, libraries and the hash of all its code, one line each.
/// Equal only for copies of the same program.
std::string build_description();

}  // namespace tessera
