// JSON through nlohmann-json, with our errors.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

namespace tessera {

using Json = nlohmann::json;

/// Parses text; InputError names `what` (a file, usually) and the byte where parsing stopped.
/// Duplicate keys are refused.
Json parse_json(std::string_view text, std::string_view what);

}  // namespace tessera
