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
/// differ from rank 0, and the first line in which each does. `what` says what the text is:
/// "configuration". Ranks that give no text have nothing to compare; rank 0 must.
void compare_across(Communicator& world, const std::string& what, const std::string& text,
                    Device device = {});

/// The program's version, how it was compiled, the libraries that it runs with, and the hash of all
/// its code: a line for each. Equal for copies of one program alone.
std::string build_description();

}  // namespace tessera
