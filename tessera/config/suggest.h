// "Did you mean ...?"
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace tessera::config {

/// Insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`.
std::size_t edit_distance(std::string_view a, std::string_view b);

/// " (did you mean --num-layers?)", with `prefix` before the name, for the nearest of `names`;
/// empty when none is near.
std::string did_you_mean(std::string_view typed, std::span<const std::string_view> names,
                         std::string_view prefix);

}  // namespace tessera::config
