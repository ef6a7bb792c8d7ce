// Megatron's layout strings: which layers each pipeline stage has, letter by letter.
//
//   Et*3|(tt|)*29mL     E embedding, t decoder layer, m layer for multi-token prediction, L loss;
//                       | ends a stage; x*n and (...)*n repeat; commas and blanks are for the eye
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tessera {

/// The letters of each stage. InputError if the string cannot be parsed.
std::vector<std::string> read_layout(const std::string& layout);

/// The number of decoder layers of each stage. InputError unless there are `stages` stages, with E
/// first, L last, and `num_layers` layers in total. Layers for multi-token prediction need not be
/// given; they are always where L is.
std::vector<std::int64_t> layers_of_layout(const std::string& layout, std::int64_t num_layers,
                                           std::int64_t mtp_layers, int stages);

}  // namespace tessera
