// Names that other programs use for some of Megatron's flags.
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

/// A hint at the right flag for such a name ("tp", without leading dashes).
std::optional<std::string_view> hint_for_other_name(std::string_view name);

}  // namespace tessera::config
