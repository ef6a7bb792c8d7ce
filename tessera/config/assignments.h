// The flags that were given on the command line or in a configuration file, before their values are
// stored in Settings. Contains known names only; errors are added to Problems.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "tessera/config/command.h"
#include "tessera/config/flags/flag.h"
#include "tessera/config/problems.h"

namespace tessera::config {

struct Assignment {
  Values values;
  std::string where;  ///< "file:line"; empty on the command line
};

/// By flag name.
using Assignments = std::map<std::string, Assignment, std::less<>>;

/// Of a flag that train is given several times, the last value counts, as in Megatron. Lists of
/// other commands add up.
Assignments read_arguments(Command command, std::span<const std::string> args, Problems& problems,
                           Notes& notes);
Assignments read_config(Command command, std::string_view yaml, std::string_view what,
                        Problems& problems, Notes& notes);

/// The flags of the file, overridden by those of the command line.
Assignments merge(const Assignments& file, const Assignments& command_line);

/// Stores all values, in the order of the table.
void store(const Assignments& given, Settings& settings, Problems& problems);

/// A switch that is set to false counts as not given, and some numbers that are 0.
bool is_on(const Flag& flag, const Assignment& assignment);
bool was_given(const Assignments& given, std::string_view flag);

/// The flag as the user wrote it: "--lr 0.1", or "run.yaml:3: lr '0.1'".
std::string spelled(std::string_view flag, const Assignment& assignment);

}  // namespace tessera::config
