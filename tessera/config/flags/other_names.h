// What other programs call some of Megatron's flags.
#pragma once

#include <optional>
#include <span>
#include <string_view>

namespace tessera::config {

struct OtherName {
  std::string_view name;  ///< without dashes in front
  std::string_view hint;
};
std::span<const OtherName> other_names();

/// For such a name ("tp", without dashes in front): which flag is meant, in words for the user.
std::optional<std::string_view> hint_for_other_name(std::string_view name);

}  // namespace tessera::config
