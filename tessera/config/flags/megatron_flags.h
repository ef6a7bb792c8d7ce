// Flags that Megatron-LM has and Tessera does not support yet. They are refused by name, so that a
// launch script taken over from Megatron never loses a setting silently.
#pragma once

#include <optional>
#include <string_view>

namespace tessera::config {

/// A suggestion (may be empty) for a Megatron flag without an equivalent; nothing for any other
/// name. `name` has no leading dashes.
std::optional<std::string_view> unsupported_megatron_flag(std::string_view name);

/// Whether a name begins as many of Megatron's flags do, of which Tessera has none, or few.
bool in_megatron_family(std::string_view name);

}  // namespace tessera::config
