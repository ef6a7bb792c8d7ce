// The table of all flags: the single source for argv parsing, configuration files, --help,
// --print-config and range checks.
#pragma once

#include <string_view>
#include <vector>

#include "tessera/config/flags/flag.h"

namespace tessera::config {

/// In the order of --help. Values are stored in this order as well, so that a flag may refine an
/// earlier one (--add-qkv-bias after --disable-bias-linear), in whatever order they were given.
const std::vector<Flag>& flag_table();

/// Null if there is no such flag. `name` has no leading dashes.
const Flag* find_flag(std::string_view name);

}  // namespace tessera::config
