// Starts the ranks of a command, by this program or by a launcher.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tessera/config/parse.h"
#include "tessera/launch/launch.h"

namespace tessera {

/// How many ranks a launcher started, if one did; then the start is left to it.
std::optional<int> apply_launcher_environment(ParsedCommand& parsed,
                                              const Environment& environment);

/// Runs `body` on all ranks that the options ask for. `config` is compared across them, and
/// `arguments` are all of the program's, for processes that it starts. Returns the exit code.
int run_on_ranks(const Options& options, const std::string& config,
                 const std::vector<std::string>& arguments, const std::function<void(Rank&)>& body);

}  // namespace tessera
