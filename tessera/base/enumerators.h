// The values of an enumeration whose names a function to_string gives.
#pragma once

#include <array>
#include <cstddef>

namespace tessera {

/// All of them, counted by their names, so that the list cannot miss one. E's values are 0, 1, ...
/// without gaps, and to_string(E) is constexpr and empty for a number that is none.
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
