// The table of all flags: the one source of argv parsing, configuration files, --help,
// --print-config and range checks.
#pragma once

#include <string_view>
#include <vector>

#include "tessera/config/flags/flag.h"

namespace tessera::config {

/// In the order of --help. Values are stored in this order too, so that a flag may refine what an
/// earlier one set (--add-qkv-bias after --disable-bias-linear), wherever both were written.
const std::vector<Flag>& flag_table();

/// Null when there is no such flag. `name` without dashes in front.
const Flag* find_flag(std::string_view name);

}  // namespace tessera::config
