// The lines of a text that is in memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace tessera {

/// Calls each(line, number) for the lines that are not empty, without their ends ("\n" or "\r\n").
/// Numbers count from 1.
template <class Each>
void each_line(std::string_view text, const Each& each) {
  std::size_t number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    at = end + 1;
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.empty()) each(line, number);
  }
}

}  // namespace tessera
