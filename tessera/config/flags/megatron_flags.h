// Flags that Megatron-LM has and Tessera does not have yet: they are refused by name, so that a
// launch script that is carried over never loses a setting in silence.
#pragma once

#include <optional>
#include <string_view>

namespace tessera::config {

/// What to do instead (may be empty) for a Megatron flag without equivalent here; nothing for any
/// other name. `name` without dashes in front.
std::optional<std::string_view> unsupported_megatron_flag(std::string_view name);

}  // namespace tessera::config
