// What a name on the command line or in a configuration file stands for: a flag of the command, an
// old name for some, a flag of Megatron's that Tessera needs not, or nothing.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tessera/config/command.h"
#include "tessera/config/flags/flag.h"
#include "tessera/config/megatron/megatron_flags.h"
#include "tessera/config/megatron/old_names.h"

namespace tessera::config {

/// Names may be written with '_' for '-', and in files with the dashes in front.
std::string canonical_name(std::string_view name);

/// At most one of the three is set.
struct FlagName {
  const Flag* flag = nullptr;              ///< of this command
  const OldName* old_name = nullptr;       ///< of train
  const MegatronFlag* megatron = nullptr;  ///< of train, and no row of flag_table()

  bool known() const { return flag != nullptr || old_name != nullptr || megatron != nullptr; }
  /// The number of values; that of an unknown name is taken to be any.
  Arity arity() const;
};

FlagName flag_name(std::string_view name, Command command);

/// Why `name`, which is not known, is refused.
std::string refusal(std::string_view name, Command command);

/// The flag that a name is near to, or what it is called in other programs: " (did you mean
/// --lr?)"; empty if there is none.
std::string near_flag(std::string_view name, Command command);

}  // namespace tessera::config
