// The values of an enumeration with a to_string function.
#pragma once

#include <array>
#include <cstddef>

namespace tessera {

/// All values, counted by their names, so that the list is complete. E's values must be 0, 1, ...
/// without gaps, and to_string(E) must be constexpr and empty for any other number.
template <class E>
constexpr auto enumerators() {
  constexpr std::size_t count = [] {
    int named = 0;
    while (!to_string(static_cast<E>(named)).empty()) ++named;
    return static_cast<std::size_t>(named);
  }();
  std::array<E, count> all{};
  for (std::size_t i = 0; i < count; ++i) all[i] = static_cast<E>(i);
  return all;
}

}  // namespace tessera
