// Megatron's layout strings: which layers each pipeline stage has, letter by letter.
//
//   Et*3|(tt|)*29L     E embedding, t decoder layer, L loss; | ends a stage;
//                      x*n and (...)*n repeat; commas and blanks are for the eye
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tessera {

/// Each stage's letters. InputError when the string cannot be read.
std::vector<std::string> read_layout(const std::string& layout);

/// The decoder layers of each stage. InputError unless there are `stages` of them with E first, L
/// last, and `num_layers` in all.
std::vector<std::int64_t> layers_of_layout(const std::string& layout, std::int64_t num_layers,
                                           int stages);

}  // namespace tessera
