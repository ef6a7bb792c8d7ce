// model.safetensors.index.json: which file of a Hugging Face folder holds which tensor.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace tessera {

constexpr const char* kHfIndexFile = "model.safetensors.index.json";

/// From a tensor's name to that of its file.
using WeightMap = std::map<std::string, std::string>;

/// InputError, with `what` (the file), for a text that makes no sense or names a file elsewhere.
WeightMap parse_weight_map(std::string_view text, const std::string& what);

/// As transformers writes it.
std::string weight_map_text(const WeightMap& map, std::uint64_t bytes, std::uint64_t parameters);

}  // namespace tessera
