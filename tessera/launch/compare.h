// Finds ranks that were started with something else than the others.
#pragma once

#include <string>
#include <vector>

#include "tessera/comm/communicator.h"

namespace tessera {

/// Every rank's text, in rank order. `device` is where the communicator finds its memory.
std::vector<std::string> gather_texts(Communicator& world, const std::string& text,
                                      Device device = {});

/// Throws the same InputError on all ranks unless all give the same text. It names the ranks that
/// differ from rank 0, and the first line that does. `what` says what the text is: "configuration".
void compare_across(Communicator& world, const std::string& what, const std::string& text,
                    Device device = {});

/// The program's version, and how it was compiled: a line for each.
std::string build_description();

}  // namespace tessera
