// What a command takes (--help), and what it will do (--print-config), as text.
#pragma once

#include <string>

#include "tessera/config/parse.h"

namespace tessera {

/// What the program does, and its commands.
std::string overview_text();

/// At most 100 columns wide.
std::string help_text(Command command);

/// All options of the command as YAML that --config reads back to the same values. Best after
/// resolve, which fills in what is derived.
std::string print_config(const ParsedCommand& parsed);

/// The options of a run, as for `train`: what a checkpoint stores, and options_from_yaml reads.
std::string print_config(const Options& options);

}  // namespace tessera
