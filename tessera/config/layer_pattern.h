// Megatron's way to say which layers are of a kind: every N-th, or a list with a 0 or 1 for each
// layer, written as a Python expression such as ([0]*1+[1]*26).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::config {

/// One number N, or the list's values. InputError for anything else.
std::vector<std::int64_t> parse_layer_pattern(std::string_view text);
/// The shortest text that reads back as the same pattern.
std::string layer_pattern_text(const std::vector<std::int64_t>& pattern);

}  // namespace tessera::config
