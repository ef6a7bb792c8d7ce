// The texts of --help and --print-config.
#pragma once

#include <string>

#include "tessera/config/parse.h"

namespace tessera {

/// A description of the program and its commands.
std::string overview_text();

/// At most 100 columns wide.
std::string help_text(Command command);

/// All options of the command as YAML, which --config reads back to the same values. Call it after
/// resolve to include derived values.
std::string print_config(const ParsedCommand& parsed);

/// The options of a run, as for `train`. Stored in checkpoints and read by options_from_yaml.
std::string print_config(const Options& options);

}  // namespace tessera
