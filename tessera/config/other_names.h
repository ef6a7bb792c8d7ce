// What other programs call some of Megatron's flags.
#pragma once

#include <optional>
#include <string_view>

namespace tessera::config {

/// For such a name ("tp", without dashes in front): which flag is meant, in words for the user.
std::optional<std::string_view> hint_for_other_name(std::string_view name);

}  // namespace tessera::config
